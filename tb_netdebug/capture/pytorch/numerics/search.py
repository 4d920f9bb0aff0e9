"""Repeats the forward passes of a step to find out what made the first NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.utils import _pytree as pytree

from tb_netdebug.capture.pytorch.calls import Call
from tb_netdebug.capture.pytorch.numerics.flags import Flags, flags_of
from tb_netdebug.capture.pytorch.numerics.origin import OriginTracer
from tb_netdebug.capture.pytorch.numerics.origin_told import Origin, names_of
from tb_netdebug.capture.pytorch.numerics.unnoticed import unnoticed

NO_CALL = "no call of the model was seen"
NEEDS_GRADIENTS = "does not require grad"
DIFFERENT = "the forward pass was repeated, and the values were finite then"


@dataclass(frozen=True, slots=True)
class Searched:
    """The origin, unless everything in the models was finite; `why_not` says what kept us from looking."""

    origin: Origin | None = None
    call: int = -1
    why_not: str = ""


def search(calls: Sequence[Call], models: Mapping[str, nn.Module]) -> Searched:
    """Takes as long as the calls did, and a few times more. Nothing of the training changes by it."""
    found = Searched(why_not="" if calls else NO_CALL)
    for number, call in enumerate(calls):
        seen = search_call(call, models)
        if seen.origin is not None and not seen.origin.masked_only:
            return Searched(seen.origin, number, seen.why_not)
        if seen.why_not or seen.origin is not None:
            found = Searched(seen.origin, number, seen.why_not)
    return found


def search_call(call: Call, models: Mapping[str, nn.Module]) -> Searched:
    was = joined(flags_of(each) for ref in call.outputs if (each := ref()) is not None)
    why_not = DIFFERENT
    try:
        origin = repeated(call, models)
    except Exception as error:  # the user's own code runs here
        origin, why_not = None, f"its forward pass could not be repeated ({first_line(error)})"
    if origin is not None:
        return Searched(origin)
    if was.nan or was.pos_inf:
        where, class_name = names_of({call.name: call.model})[id(call.model)]
        return Searched(Origin("output", where, class_name, was.kind, 0), why_not=why_not)
    return Searched(why_not="" if why_not is DIFFERENT else why_not)


def repeated(call: Call, models: Mapping[str, nn.Module]) -> Origin | None:
    """The origin of what is not finite in the output, or in what the modules have put aside."""
    try:
        return repeated_with(call, models, gradients=False)
    except RuntimeError as error:
        if NEEDS_GRADIENTS not in str(error):
            raise
    return repeated_with(call, models, gradients=True)  # a model that differentiates by its inputs


def repeated_with(call: Call, models: Mapping[str, nn.Module], *, gradients: bool) -> Origin | None:
    model = inner(call.model)
    known = {name: inner(each) for name, each in models.items()}
    args, kwargs = copied(call.args), copied(call.kwargs)
    tracer = OriginTracer(known)
    with unnoticed(known.values()), tracer.names(), call.conditions(), torch.set_grad_enabled(gradients):
        tracer.begin(model, args, kwargs)
        torch.set_rng_state(call.before)
        with tracer:
            output = model(*args, **kwargs)
        return tracer.origin_of(output, model) or tracer.origin_in_attributes(model)


def inner(model: nn.Module) -> Any:
    """The module as its author wrote it, without what spreads or compiles it."""
    while True:
        if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(model, OptimizedModule):
            model = model._orig_mod
        else:
            return model


def copied(values: Any) -> Any:
    """A forward pass may write to what it is given."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), values)


def joined(flags: Iterable[Flags]) -> Flags:
    given = list(flags)
    return Flags(
        any(each.nan for each in given),
        any(each.pos_inf for each in given),
        any(each.neg_inf for each in given),
    )


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error) or 'no reason given').splitlines()[0][:200]}"
