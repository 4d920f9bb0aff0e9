"""Runs a capsule's batch again on the capsule's weights and records what each module puts out.

`nd.replay` and `netdebug replay` call it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.numerics.backward_checks import BackwardChecks, of_slope
from tb_netdebug.frameworks.torch.numerics.capsule_file import CapsuleError, load_capsule
from tb_netdebug.frameworks.torch.numerics.capsule_weights import put_weights
from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.numerics.graph_nodes import mark_output
from tb_netdebug.frameworks.torch.numerics.late_buffers import is_bad_buffer, make_finite
from tb_netdebug.frameworks.torch.numerics.loss_origin import culprit_of
from tb_netdebug.frameworks.torch.numerics.origin import OriginTracer
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, Place, names_of
from tb_netdebug.frameworks.torch.numerics.search import inner
from tb_netdebug.frameworks.torch.order import CallOrder, last_bad_module
from tb_netdebug.frameworks.torch.reader import host_item
from tb_netdebug.frameworks.torch.values import CODES, UnreadableError, plain, tensors_in

__all__ = ["CapsuleError", "Replay", "ReplayRow", "load_capsule", "replay"]


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """One tensor that a module put out; `place` is its position in the output."""

    module: str
    class_name: str
    place: str
    shape: tuple[int, ...]
    dtype: str
    summary: Summary | None


@dataclass(slots=True)
class Replay:
    """What running the batch again has shown; `origin` is what made the first non-finite value."""

    rows: list[ReplayRow] = field(default_factory=list)
    origin: Origin | None = None
    gradient: Origin | None = None
    has_used_loss: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def is_finite(self) -> bool:
        return self.origin is None and self.gradient is None

    def as_dict(self) -> dict[str, Any]:
        """Return the origin in the fields of the fact `first-nonfinite`; empty when everything was finite."""
        origin = self.origin or self.gradient
        return asdict(origin) if origin is not None else {}


def replay(
    capsule: str | Path | dict[str, Any],
    model: nn.Module | Mapping[str, nn.Module],
    *,
    backward: bool = False,
    loss: Callable[[Any], torch.Tensor] | None = None,
) -> Replay:
    """Load a capsule's weights into `model` and run its batch with the same random numbers and modes.

    Build `model` as in the run; give several by name, as in `nd.watch`. `backward` also runs the backward
    pass from `loss(output)`, by default from the sum of the outputs. Raises CapsuleError when they do not
    fit.
    """
    content = capsule if isinstance(capsule, dict) else load_capsule(capsule)
    models = {
        name: inner(each) for name, each in (model if isinstance(model, Mapping) else {"": model}).items()
    }
    done = run_calls(content, models, backward=backward, loss=loss)
    blamed = done.origin
    if is_bad_buffer(blamed, models):
        again = run_calls(content, models, backward=backward, loss=loss, finite=True)
        if again.origin is not None and is_bad_buffer(blamed, models):
            done = again
    if loss is not None and not done.has_used_loss:
        done.notes.append(f"the given loss was not called: {why_no_loss(done, backward=backward)}")
    return done


def run_calls(
    content: dict[str, Any],
    models: Mapping[str, nn.Module],
    *,
    backward: bool,
    loss: Callable[[Any], torch.Tensor] | None,
    finite: bool = False,
) -> Replay:
    """Restore the models, with `finite` buffers on request, and run the calls up to the first origin."""
    done = Replay()
    for name, each in models.items():
        restore(content, name, each, done)
    if finite:
        make_finite(models)
    if not content["calls"]:
        raise CapsuleError(
            "the capsule holds no batch: " + ("; ".join(content["left_out"]) or "none was seen")
        )
    for number, call in enumerate(content["calls"]):
        run_call(number, call, models, done, backward=backward, loss=loss)
        if not done.is_finite:
            break
    return done


def why_no_loss(done: Replay, *, backward: bool) -> str:
    if done.origin is not None:
        return "the forward pass has NaN or infinities before that point"
    return "no call returned a tensor" if backward else "only --backward (backward=True) goes that far"


def restore(content: dict[str, Any], name: str, model: nn.Module, done: Replay) -> None:
    """Restore weights and modes; a capsule without weights leaves those that the model came with."""
    states = content["models"]
    if not states:
        done.notes.append("the capsule holds no weights; the replay uses those that the model was built with")
    elif name not in states:
        known = ", ".join(map(repr, states))
        raise CapsuleError(f"the capsule holds the weights of {known}, none of {name!r}")
    else:
        done.notes += put_weights(states[name], model, version=content["netdebug_capsule"])
    evaluating = set(content["evaluating"].get(name, ()))
    for place, module in model.named_modules():
        module.training = place not in evaluating


def run_call(
    number: int,
    call: dict[str, Any],
    models: Mapping[str, nn.Module],
    done: Replay,
    *,
    backward: bool,
    loss: Callable[[Any], torch.Tensor] | None,
) -> None:
    """Run one call of the capsule and record its outputs, its origin and, with `backward`, its gradients."""
    model = model_of(models, number, call, done)
    tracer = OriginTracer(models)
    order = CallOrder(models)
    with ExitStack() as stack:
        stack.callback(order.close)
        stack.enter_context(tracer.names())
        stack.enter_context(conditions(call["autocast"]))
        tracer.keeps_places = backward
        # Anomaly mode records a trace per operation, so the line of one that fails in backward is known. Its
        # own check for NaN stays off: it would raise instead of letting us follow the NaN.
        stack.enter_context(torch.autograd.set_detect_anomaly(True, False) if backward else torch.no_grad())
        stack.enter_context(statistics(models, done))
        tracer.begin(model, call["args"], call["kwargs"])
        set_random(call)
        with tracer:
            output = model(*call["args"], **call["kwargs"])
        origin = tracer.origin_of(output, model) or tracer.origin_in_attributes(model)
    if origin is not None and not origin.masked_only:
        done.origin = origin
    elif backward:
        done.has_used_loss = loss is not None
        with torch.autograd.set_detect_anomaly(True, False):
            done.gradient = gradient_of(output, models, order, loss, tracer.places)


def model_of(models: Mapping[str, nn.Module], number: int, call: dict[str, Any], done: Replay) -> nn.Module:
    """Return the model that was called. Raises CapsuleError when it cannot be called again."""
    model = models.get(call["model"])
    if model is None:
        raise CapsuleError(f"call {number} belongs to the model {call['model']!r}, which was not given")
    if not call.get("complete", True):
        raise CapsuleError(
            f"call {number} had arguments that a capsule cannot hold; see the list of what was left out"
        )
    if call.get("changed_since"):
        done.notes.append(f"the arguments of call {number} were changed after the call had started")
    return model


def set_random(call: dict[str, Any]) -> None:
    """Restore the random generator as it was before the call. Raises CapsuleError."""
    try:
        torch.set_rng_state(call["random"])
    except RuntimeError as error:
        raise CapsuleError(f"the capsule is damaged: its random state is invalid ({error})") from None


def conditions(autocast: Mapping[str, str]) -> ExitStack:
    """Return a context with the autocast settings of the call."""
    stack = ExitStack()
    for device, name in autocast.items():
        dtype = getattr(torch, name, None)
        if isinstance(dtype, torch.dtype):
            # Everything is in host memory now, so casts apply to the CPU. If both had some, the accelerator's
            # win.
            stack.enter_context(torch.autocast("cpu", dtype))
            if device != "cpu":
                break
    return stack


def statistics(models: Mapping[str, nn.Module], done: Replay) -> ExitStack:
    """Return a context in which the outputs of all modules are recorded as rows."""
    names = names_of(models)

    def look(module: nn.Module, _: Any, output: Any) -> None:
        where, class_name = names[id(module)]
        for place, tensor in tensors_in(output):
            done.rows.append(
                ReplayRow(
                    where,
                    class_name,
                    place,
                    tuple(tensor.shape),
                    str(tensor.dtype).rpartition(".")[2],
                    summary_of(tensor),
                )
            )

    stack = ExitStack()
    for model in models.values():
        for module in model.modules():
            stack.callback(module.register_forward_hook(look).remove)
    return stack


def summary_of(tensor: torch.Tensor) -> Summary | None:
    """Return a summary of the tensor; None when it has no readable values."""
    try:
        values = plain(tensor).contiguous()
    except (UnreadableError, RuntimeError):
        return None
    if not values.numel() or values.dtype not in CODES:
        return None
    (packed,) = kernel.summarize([host_item(values)], torch.get_num_threads())
    return Summary.unpack(packed)


def gradient_of(
    output: Any,
    models: Mapping[str, nn.Module],
    order: CallOrder,
    loss: Callable[[Any], torch.Tensor] | None,
    places: Mapping[int, Place],
) -> Origin | None:
    """Return where gradients go wrong on the way back from the loss; None when they stay finite."""
    for model in models.values():
        model.zero_grad()
    for _, tensor in tensors_in(output):
        mark_output(tensor)  # operations from here on belong to the loss
    roots = [loss(output)] if loss else [each for _, each in tensors_in(output) if each.requires_grad]
    bad = next((root for root in roots if flags_of(root).any), None)
    if bad is not None:
        return origin_in_loss(bad)
    checks = BackwardChecks()
    checks.begin(roots)
    torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])
    parameters = [each for model in models.values() for each in model.parameters()]
    seen, slope = last_bad_module(parameters, models, order), checks.found
    return seen if seen is None or slope is None else of_slope(slope, seen, places.get(slope.number))


def origin_in_loss(root: torch.Tensor) -> Origin:
    """Return the origin of a non-finite loss that was computed from finite outputs."""
    culprit = culprit_of(root)
    tensor = culprit.part if culprit.part in ("target", "operand") else ""
    kind = flags_of(root).kind
    return Origin(
        "loss", "", "", kind, 0, tensor=tensor, operation=culprit.operation.lower(), site=culprit.line
    )
