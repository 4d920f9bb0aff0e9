"""Checks losses on an accelerator for NaN and infinities without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import torch

from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries


class DeviceRoots:
    """Queues the loss of each step on the device; the answers arrive some steps later."""

    def __init__(self) -> None:
        self._device: DeviceSummaries | None = None
        self._newest = -1

    @property
    def are_idle(self) -> bool:
        """Whether no loss has been on an accelerator yet."""
        return self._device is None

    def add(self, root: torch.Tensor, step: int) -> None:
        """Queue a loss for its test. Only the first scalar root of a step is taken."""
        if step == self._newest or root.numel() != 1:
            return
        self._newest = step
        if self._device is None:
            self._device = DeviceSummaries()
        self._device.scalar(root.detach(), step)

    def nonfinite(self) -> Iterator[tuple[int, str]]:
        """Yield the steps whose loss was not finite, with the kind. Called at the end of each step."""
        if self._device is None:
            return
        self._device.flush()
        for collected in self._device.ready():
            for key, value in collected.scalars:
                if not math.isfinite(value):
                    yield cast("int", key), "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
