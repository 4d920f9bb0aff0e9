"""Repeats the forward passes of a step to find what made the first NaN or infinity.

Nothing here restores what a forward pass changes: it runs in a process that does not train.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.utils import _pytree as pytree

from tb_netdebug.frameworks.torch.calls import ModelCall
from tb_netdebug.frameworks.torch.numerics.flags import NonFiniteFlags, flags_of
from tb_netdebug.frameworks.torch.numerics.late_buffers import is_bad_buffer, make_finite
from tb_netdebug.frameworks.torch.numerics.origin import OriginTracer
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin

NO_CALL = "no call of the model was seen"
NEEDS_GRADIENTS = "does not require grad"


@dataclass(frozen=True, slots=True)
class Searched:
    """What made the first non-finite value, as far as is known.

    `repeats`: the same batch on the same weights made it again; None when that could not be told. `why_not`
    says what prevented the search. Without an origin the models' outputs were finite, unless `is_open`.
    """

    origin: Origin | None = None
    call: int = -1
    why_not: str = ""
    repeats: bool | None = None
    is_open: bool = False

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Searched:
        """Undo `as_dict`."""
        origin = plain["origin"]
        return cls(**{**plain, "origin": None if origin is None else Origin(**origin)})


def search(calls: Sequence[ModelCall], models: Mapping[str, nn.Module]) -> Searched:
    """Return the first origin. A buffer is one only if these calls do not make it non-finite themselves."""
    found = first_found(calls, models)
    known = {name: inner(each) for name, each in models.items()}
    if not is_bad_buffer(found.origin, known):
        return found
    make_finite(known)
    again = first_found(calls, models)
    is_real = again.origin is not None and not again.origin.masked_only
    return again if is_real and is_bad_buffer(found.origin, known) else found


def first_found(calls: Sequence[ModelCall], models: Mapping[str, nn.Module]) -> Searched:
    """Repeat the calls, in their order, and return the first origin."""
    if not calls:
        return Searched(why_not=NO_CALL, is_open=True)
    found = Searched(repeats=True)
    for number, call in enumerate(calls):
        seen = search_call(call, number, models)
        if seen.origin is not None and not seen.origin.masked_only:
            return seen
        if not found.is_open and (seen.is_open or seen.origin is not None or seen.repeats is None):
            found = seen
    return found


def search_call(call: ModelCall, number: int, models: Mapping[str, nn.Module]) -> Searched:
    """Repeat one call and return its origin, or why there is none."""
    outputs = [ref() for ref in call.outputs]
    was = joined(flags_of(each) for each in outputs if each is not None)
    was_bad = was.nan or was.pos_inf
    # Outputs are held weakly: one that the program has dropped cannot be compared.
    is_known = bool(outputs) and all(each is not None for each in outputs)
    try:
        origin = repeated(call, models)
    except Exception as error:  # user code runs here
        why_not = f"its forward pass could not be run again ({first_line(error)})"
        return Searched(call=number, why_not=why_not, is_open=was_bad)
    if origin is not None:
        return Searched(origin, number, repeats=True)
    if was_bad:
        return Searched(call=number, repeats=False, is_open=True)
    return Searched(call=number, repeats=True if is_known else None)


def repeated(call: ModelCall, models: Mapping[str, nn.Module]) -> Origin | None:
    """Return the origin of non-finite values in the output, or in attributes that modules have set."""
    try:
        return repeated_with(call, models, gradients=False)
    except RuntimeError as error:
        # torch raises a plain RuntimeError for this, which only its text tells from others.
        if NEEDS_GRADIENTS not in str(error):
            raise
    return repeated_with(call, models, gradients=True)  # a model that takes gradients in its forward pass


def repeated_with(call: ModelCall, models: Mapping[str, nn.Module], *, gradients: bool) -> Origin | None:
    """Repeat the call on copies of its arguments, with its random numbers, and return the origin."""
    model = inner(call.model)
    known = {name: inner(each) for name, each in models.items()}
    args, kwargs = copied(call.args), copied(call.kwargs)
    tracer = OriginTracer(known)
    with tracer.names(), call.conditions(), torch.set_grad_enabled(gradients):
        tracer.begin(model, args, kwargs)
        torch.set_rng_state(call.before)
        with tracer:
            output = model(*args, **kwargs)
        return tracer.origin_of(output, model) or tracer.origin_in_attributes(model)


def inner(model: nn.Module) -> Any:
    """Return the module as its author wrote it, without wrappers that distribute or compile it."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(model, OptimizedModule):
            model = model._orig_mod
        else:
            return model


def copied(values: Any) -> Any:
    """Return the values with all tensors copied, because a forward pass may write to its arguments."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), values)


def joined(flags: Iterable[NonFiniteFlags]) -> NonFiniteFlags:
    given = list(flags)
    return NonFiniteFlags(
        any(each.nan for each in given),
        any(each.pos_inf for each in given),
        any(each.neg_inf for each in given),
    )


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error) or 'no reason given').splitlines()[0][:200]}"
