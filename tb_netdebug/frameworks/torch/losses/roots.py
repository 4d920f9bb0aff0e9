"""The loss as backward receives it, for programs that do not report it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tb_netdebug.core.records.facts import BackwardLossFact
from tb_netdebug.core.records.scalar_names import LOSS
from tb_netdebug.frameworks.torch.losses.scalar_sink import ScalarSink, is_recorded, measuring
from tb_netdebug.frameworks.torch.losses.scale import LossScale
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped, is_opaque


class LossRoots:
    """Adds up what a step differentiates; of repeated calls of an optimizer's closure, the first counts.

    Nothing is read any more once the user has reported a loss.
    """

    def __init__(self, context: ProbeContext, sink: ScalarSink, scale: LossScale) -> None:
        self._context = context
        self._sink = sink
        self._scale = scale
        self.is_told = False  # the user reports the loss
        self._has_said = False  # the run's description knows where the loss comes from
        self.in_optimizer = 0  # 0: outside of a step; else 1 plus its backward passes
        self._host: float | None = None
        self._device: Tensor | None = None

    def end_step(self, *, calls: int) -> None:
        if self._sink.has(LOSS):
            self.is_told = True
            self._host = self._device = None
            return
        found: Tensor | float | None = self._host
        if self._device is not None:
            found = self._device if self._host is None else self._device + self._host
        self._host = self._device = None
        if found is None:
            return
        self._sink.put(LOSS, found)
        if not calls and not self._has_said:
            self._has_said = True
            self._context.collector.fact(BackwardLossFact("backward"))

    def add(self, roots: Tensor | Sequence[Any]) -> None:
        """Add the loss of a backward pass, at its beginning."""
        if self.in_optimizer:
            self.in_optimizer += 1
            # LBFGS evaluates its closure at several points; the first is where the step began.
            if self.in_optimizer > 2:
                return
        for root in (roots,) if isinstance(roots, Tensor) else tuple(roots):
            if isinstance(root, Tensor) and is_number(root) and can_be_read(root):
                self._add(self._scale.unscaled(root))

    def _add(self, root: Tensor) -> None:
        if self._sink.reads(root):
            self._host = (self._host or 0.0) + root.item()
        elif not is_recorded(root.device):
            with measuring(root.device):
                # A copy: it is sent at the end of the step, and the program may write to its loss before.
                value = root.detach().reshape(()).to(torch.float32, copy=True)
                self._device = value if self._device is None else self._device + value.to(self._device.device)


def can_be_read(root: Tensor) -> bool:
    return not (is_functorch_wrapped(root) or is_opaque(root))


def is_number(root: Tensor) -> bool:
    return root.numel() == 1 and root.is_floating_point()
