"""Losses on an accelerator, asked whether they are finite without waiting for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import cast

import torch

from tb_netdebug.frameworks.torch.device.summaries import DeviceSummaries


class DeviceRoots:
    """The answers come steps later."""

    def __init__(self) -> None:
        self._device: DeviceSummaries | None = None
        self._newest = -1

    @property
    def are_idle(self) -> bool:
        """No loss has been on an accelerator yet."""
        return self._device is None

    def add(self, root: torch.Tensor, step: int) -> None:
        """The first one of a step stands for all."""
        if step == self._newest or root.numel() != 1:
            return
        self._newest = step
        if self._device is None:
            self._device = DeviceSummaries()
        self._device.scalar(root.detach(), step)

    def nonfinite(self) -> Iterator[tuple[int, str]]:
        """Called at the end of each step: the steps that were not, and what they were."""
        if self._device is None:
            return
        self._device.flush()
        for collected in self._device.ready():
            for key, value in collected.scalars:
                if not math.isfinite(value):
                    yield cast("int", key), "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
