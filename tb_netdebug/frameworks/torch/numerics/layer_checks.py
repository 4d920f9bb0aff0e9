"""Checks every output of every layer for NaN and +inf: in all steps, or for a while after a bad loss.

Each output costs one cheap pass: a few percent of a step in host memory. On an accelerator it is one more
small kernel per layer, whose result is read later without waiting.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FrameType
from typing import Any, cast

import torch
from torch import nn

from tb_netdebug.frameworks.torch.activations import is_layer
from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries
from tb_netdebug.frameworks.torch.hooks import after_forward
from tb_netdebug.frameworks.torch.numerics.flags import NonFiniteFlags, flags_of
from tb_netdebug.frameworks.torch.numerics.operations import site
from tb_netdebug.frameworks.torch.numerics.origin_report import Origin, names_of
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.clock import now

is_compiling = torch.compiler.is_compiling
is_traced = torch._C._is_tracing
is_grad_enabled = torch.is_grad_enabled

# On an accelerator a bad loss is known only some steps later. The hooks then stay on for so many steps to
# catch the next one.
STEPS_ARMED = 64
MODULE_CALL = nn.Module._call_impl.__code__


class LayerChecks:
    """Hooks on all layers; `found` returns the first layer, in call order, that made a NaN or +inf."""

    def __init__(self, context: ProbeContext, *, always: bool) -> None:
        self._context = context
        self._always = always
        self._hooks: list[Any] = []
        self._names: dict[int, tuple[str, str]] = {}
        self._armed_steps = 0
        self._found: Origin | None = None
        self._device = DeviceSummaries()
        if always:
            self._put_on()

    @property
    def are_armed(self) -> bool:
        return bool(self._hooks)

    @property
    def are_idle(self) -> bool:
        """Whether no hook is on and no finding waits, as in ordinary steps."""
        return not self._hooks and self._found is None

    def arm(self) -> None:
        """Put the hooks on for the next `STEPS_ARMED` steps."""
        self._armed_steps = STEPS_ARMED
        if not self._hooks:
            self._put_on()

    def end_step(self) -> None:
        if not self._hooks:
            return
        self._device.flush()
        for collected in self._device.ready():
            for key, value in collected.scalars:
                where, class_name = cast("tuple[str, str]", key)
                if not math.isfinite(value) and self._found is None:
                    kind = "NaN" if math.isnan(value) else "Inf"
                    self._found = Origin("output", where, class_name, kind, 0)
        if self._armed_steps and not self._always:
            self._armed_steps -= 1
            if not self._armed_steps:
                self.close()

    def found(self) -> Origin | None:
        """Return what was found since the last call, and forget it."""
        found, self._found = self._found, None
        return found

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def _put_on(self) -> None:
        self._names = names_of(self._context.models)
        modules = {id(each): each for model in self._context.models.values() for each in model.modules()}
        for module in modules.values():
            if is_layer(module):
                self._hooks.append(after_forward(module, self._look))

    def _look(self, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or is_traced() or not is_grad_enabled() or self._context.guard.is_off:
            return
        started = now()
        try:
            for _, tensor in tensors_in(output):
                if tensor.is_floating_point() and tensor.numel():
                    self._check(module, args, tensor)
        except Exception as error:
            self._context.guard.fault("checking the output of a layer", error)
        self._context.collector.charge(started)

    def _check(self, module: nn.Module, args: Any, tensor: torch.Tensor) -> None:
        where, class_name = self._names.get(id(module), ("", type(module).__name__))
        if not self._context.reader.is_on_host(tensor):
            # The maximum propagates NaN and shows +inf, but ignores a mask of -inf. One scalar is enough.
            self._device.scalar(tensor.detach().amax(), (where, class_name))
            return
        found = flags_of(tensor)
        if self._found is None and (found.nan or found.pos_inf):
            seen = origin_at(module, args, found, where, class_name)
            is_given = not seen.inputs_finite and not seen.masked_inputs
            between = between_layers(self._names, found, sys._getframe(1)) if is_given else None
            self._found = seen if between is None else replace(between, before=f"{where} at {site()}")


def origin_at(module: nn.Module, args: Any, found: NonFiniteFlags, where: str, class_name: str) -> Origin:
    """Return the origin as far as one look at the layer's arguments and weights can tell."""
    for name, parameter in module.named_parameters(recurse=False):
        if (bad := flags_of(parameter)).any:
            return Origin("parameter", where, class_name, bad.kind, 0, parameters_finite=False, tensor=name)
    given = [flags_of(tensor) for _, tensor in tensors_in(args)]
    return Origin(
        "output",
        where,
        class_name,
        found.kind,
        0,
        inputs_finite=not any(each.any for each in given),
        masked_inputs=any(each.any for each in given) and not any(each.nan or each.pos_inf for each in given),
    )


def between_layers(
    names: Mapping[int, tuple[str, str]], found: NonFiniteFlags, frame: FrameType | None
) -> Origin | None:
    """Return the origin of a value that was already non-finite when the first bad layer was called.

    Called while that layer's call is still on the stack. No earlier layer has put the value out, so the code
    of an enclosing module made it: the innermost one whose arguments were finite. None when no module
    encloses it.
    """
    outermost: tuple[str, str] | None = None
    calls = (known for known in module_calls(frame) if id(known[0]) in names)
    next(calls, None)  # skip the layer itself
    for module, args in calls:
        where, class_name = names[id(module)]
        given = [flags_of(tensor) for _, tensor in tensors_in(args)]
        if not any(each.nan or each.pos_inf for each in given):  # -inf is what masks are made of
            return Origin("output", where, f"{class_name} (own code)", found.kind, 0)
        outermost = where, class_name
    return None if outermost is None else Origin("input", *outermost, found.kind, 0, inputs_finite=False)


def module_calls(frame: FrameType | None) -> Iterator[tuple[nn.Module, Any]]:
    """Yield the modules whose calls are on the stack, innermost first, with their arguments."""
    while frame is not None:
        if frame.f_code is MODULE_CALL:
            given = frame.f_locals
            yield given["self"], (given["args"], given["kwargs"])
        frame = frame.f_back
