"""Counts batches that a program skips itself because the norm of their gradients is not finite.

`clip_grad_norm_` has computed the norm, so nothing more is computed in ordinary steps. The batch is known to
be skipped if no optimizer steps on these gradients before the next backward pass or the end of the step;
optimizers of other networks may. A program may also look at the gradients in another way: where the norm of
a step is measured, those of optimizers that did not step beside one that did are looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from tb_netdebug.core.records.scalar_names import GRADIENTS_LEFT_OUT, STEP_LEFT_OUT
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.backward import watch_backward
from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped
from tb_netdebug.recording.clock import now


def when_clipped(told: Callable[[], None]) -> Handle:
    """Call `told` whenever the norm that gradients are clipped by is non-finite. It waits for no device.

    It is also called when clipping raises, as it does on request for such a norm (`error_if_nonfinite`).
    """

    def look(_: Any, norm: Any) -> None:
        if is_number(norm) and not math.isfinite(norm.item()):
            told()

    # Users call a wrapper, which turns gradients off; the function in it is the one that computes the norm.
    function = getattr(clip_grad_norm_, "__wrapped__", clip_grad_norm_)
    return listen(function, after=look, failed=lambda _: told())


def is_number(norm: Any) -> bool:
    """Return whether the norm can be read without waiting for a device or asking other processes."""
    is_plain = type(norm) is torch.Tensor and norm.is_cpu and not is_functorch_wrapped(norm)
    return is_plain and norm.numel() == 1


class ClippingProbe:
    """Counts the skipped batches of a run in each step (see `probes.Probe`).

    Only while non-finite gradients wait does it listen to what may use them or leave them out.
    """

    def __init__(self, context: ProbeContext) -> None:
        self._context = context
        self._collector = context.collector
        # Ids of watched parameters: their non-finite gradients wait for a step, or were skipped in this one.
        self._waiting: set[int] = set()
        self._skipped: set[int] = set()
        self._clips = when_clipped(self._clipped)
        self._steps: optimizer_steps.StepListener | None = None
        self._handles: list[Any] = []

    def end_step(self) -> None:
        if self._waiting:
            self._left_out()
        elif self._context.optimizers.are_several and not self._skipped:
            self._look_at_unstepped()
        if self._skipped:
            if self._skipped.isdisjoint(self._context.optimizers.stepped_parameters()):
                self._collector.scalars[STEP_LEFT_OUT] = 1.0
            self._skipped.clear()

    def close(self) -> None:
        self._settle()
        self._clips.close()

    def _clipped(self) -> None:
        guard = self._context.guard
        if guard.is_off:
            return
        try:
            self._waiting |= self._nonfinite()
            if self._waiting and self._steps is None:
                self._listen()
        except Exception as error:
            guard.fault("looking at the norm of gradients", error)

    def _nonfinite(self) -> set[int]:
        """Return the parameters of this run with non-finite gradients: another run may be clipping.

        A norm in host memory is that of gradients in host memory; no device is asked.
        """
        reader = self._context.reader
        return {
            number
            for number, each in self._context.parameters.current().items()
            if (given := each.tensor.grad) is not None and reader.is_on_host(given) and flags_of(given).any
        }

    def _listen(self) -> None:
        """Listen to what uses the gradients, and to what ends their batch."""
        self._steps = optimizer_steps.BEGINNING.listen(self._used)
        self._handles = [
            watch_backward(self._left_out, guard=self._context.guard),
            # It skips the batch itself, and reports it.
            listen(GradScaler.step, before=lambda args: self._used(args[1])),
        ]

    def _settle(self) -> None:
        self._waiting.clear()
        if self._steps is not None:
            self._steps.remove()
            self._steps = None
        for handle in self._handles:
            handle.close()
        self._handles = []

    def _used(self, optimizer: Optimizer, *_: Any) -> None:
        """Note that an optimizer uses its gradients; those of other optimizers go on waiting."""
        self._waiting -= parameters_in(optimizer)
        if not self._waiting:
            self._settle()

    def _look_at_unstepped(self) -> None:
        """Note the batch as left out if an optimizer that did not step holds non-finite gradients."""
        if not (self._collector.wants_norm or self._collector.sampling):
            return
        watched = self._context.parameters.current()
        stepped = self._context.optimizers.stepped_parameters()
        if not stepped or len(stepped) == len(watched):
            return
        started = now()
        for optimizer in self._context.optimizers.known():
            held = parameters_in(optimizer) & watched.keys()
            gradients = (watched[number].tensor.grad for number in held)
            if held.isdisjoint(stepped) and any(
                each is not None and self._context.reader.is_bad_on_host(each) for each in gradients
            ):
                self._waiting |= held
        self._left_out()
        self._collector.charge(started)

    def _left_out(self, *_: Any) -> None:
        if self._waiting:
            self._skipped |= self._waiting
            self._settle()
            self._collector.add(GRADIENTS_LEFT_OUT, 1.0)


def parameters_in(optimizer: Optimizer) -> set[int]:
    """Return the ids of all parameters that an optimizer holds."""
    return {id(each) for group in optimizer.param_groups for each in group["params"]}
