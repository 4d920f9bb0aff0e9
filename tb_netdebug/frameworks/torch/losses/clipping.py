"""Counts batches that a program skips itself because the norm of their gradients is not finite.

`clip_grad_norm_` has computed the norm, so nothing more is computed in ordinary steps. The batch is known to
be skipped if no optimizer steps before the next backward pass or the end of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.nn.utils import clip_grad_norm_

from tb_netdebug.core.records.scalar_names import GRADIENTS_LEFT_OUT
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.backward import watch_backward
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.reader import SKIPPED
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped


def when_clipped(told: Callable[[], None]) -> Handle:
    """Call `told` whenever the norm that gradients are clipped by is non-finite. It waits for no device."""

    def look(_: Any, norm: Any) -> None:
        if is_number(norm) and not math.isfinite(norm.item()):
            told()

    # Users call a wrapper, which turns gradients off; the function in it is the one that computes the norm.
    return listen(getattr(clip_grad_norm_, "__wrapped__", clip_grad_norm_), after=look)


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
        self._clips = when_clipped(self._clipped)
        self._steps: optimizer_steps.StepListener | None = None  # none while no bad gradients wait
        self._handles: list[Any] = []

    def end_step(self) -> None:
        if self._steps is not None:
            self._left_out()

    def close(self) -> None:
        self._settle()
        self._clips.close()

    def _clipped(self) -> None:
        guard = self._context.guard
        if guard.is_off:
            return
        try:
            if self._is_ours():
                self._wait()
            else:
                self._settle()
        except Exception as error:
            guard.fault("looking at the norm of gradients", error)

    def _is_ours(self) -> bool:
        """Return whether it is gradients of this run that are non-finite: another one may be clipping."""
        watched = self._context.parameters.current().values()
        gradients = [each.tensor.grad for each in watched if each.tensor.grad is not None]
        squares = self._context.reader.squares(gradients, SKIPPED) if gradients else None
        return squares is not None and bool(squares[1])

    def _wait(self) -> None:
        """Wait for an optimizer, which uses the gradients, or for the end of their batch."""
        if self._steps is None:
            self._steps = optimizer_steps.BEGINNING.listen(self._settle)
            self._handles = [
                watch_backward(self._left_out, guard=self._context.guard),
                listen(GradScaler.step, before=self._settle),  # skips the batch itself, and reports it
            ]

    def _settle(self, *_: Any) -> None:
        if self._steps is not None:
            self._steps.remove()
            self._steps = None
        for handle in self._handles:
            handle.close()
        self._handles = []

    def _left_out(self, *_: Any) -> None:
        if self._steps is not None:
            self._settle()
            self._context.collector.add(GRADIENTS_LEFT_OUT, 1.0)
