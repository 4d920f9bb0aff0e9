"""Losses on an accelerator, asked whether they are finite without waiting for them."""

from __future__ import annotations

import math
from typing import cast

import torch

from tb_netdebug.capture.torch_device import DeviceSummaries


class DeviceRoots:
    """The answers come steps later."""

    def __init__(self) -> None:
        self._device: DeviceSummaries | None = None
        self._is_waiting = False

    def add(self, root: torch.Tensor, step: int) -> None:
        if self._device is None:
            self._device = DeviceSummaries()
        self._device.scalar(root.detach(), step)
        self._is_waiting = True

    def nonfinite_steps(self, step: int) -> list[int]:
        """Called at the end of each step."""
        if self._device is None or not self._is_waiting:
            return []
        self._device.flush()
        return [
            cast("int", key)
            for collected in self._device.ready()
            for key, value in collected.scalars
            if not math.isfinite(value)
        ]
