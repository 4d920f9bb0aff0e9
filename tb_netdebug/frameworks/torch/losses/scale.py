"""The scale that torch.amp.GradScaler puts on losses, observed when the scaler is used."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from tb_netdebug.core.records.scalar_names import LOSS_SCALE, LOSS_SCALE_SKIPPED
from tb_netdebug.frameworks.torch.losses.scalar_sink import ScalarSink, is_recorded, measuring
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.taps import listen

MOST_SCALED = 16

Scaled = tuple["weakref.ref[Tensor]", Tensor]


class LossScale:
    """Records scale and skipped steps of scalers that step an optimizer of a watched model."""

    def __init__(self, context: ProbeContext, sink: ScalarSink) -> None:
        self._context = context
        self._guard = context.guard
        self._sink = sink
        self.scaled: list[Scaled] = []  # in this step
        self.stepped = False  # whether an optimizer has stepped since the scaler was asked to
        self._handles: list[Any] = [
            listen(GradScaler.scale, after=self._on_scale),
            listen(GradScaler.step, before=self._before_step, after=self._after_step),
        ]

    def close(self) -> None:
        for handle in self._handles:
            handle.close()

    def unscaled(self, root: Tensor) -> Tensor:
        """Return the loss that was scaled to this one, or else this one."""
        return next((loss for scaled, loss in self.scaled if scaled() is root), root)

    def _on_scale(self, args: tuple[Any, ...], output: Any) -> None:
        loss = args[1]
        if self._guard.is_off or len(self.scaled) >= MOST_SCALED:
            return
        if isinstance(loss, Tensor) and isinstance(output, Tensor):
            self.scaled.append((weakref.ref(output), loss.detach()))

    def _before_step(self, args: tuple[Any, ...]) -> None:
        self.stepped = False

    def _after_step(self, args: tuple[Any, ...], _: Any) -> None:
        scaler, optimizer = args[:2]
        if self._guard.is_off or not scaler.is_enabled():
            return
        try:
            self._look(scaler, optimizer)
        except Exception as error:
            self._guard.fault("looking at a GradScaler", error)

    def _look(self, scaler: GradScaler, optimizer: Any) -> None:
        """Record the scale. It lies on a device: it is read when probes measure, or when it will change."""
        scale = scaler._scale
        # A scaler may also step optimizers of models that are not watched.
        if not self._context.parameters.of(optimizer) or scale is None or is_recorded(scale.device):
            return
        skipped = self._skipped(scaler, optimizer)
        if isinstance(skipped, float):
            if skipped or not self._sink.has(LOSS_SCALE_SKIPPED):
                self._sink.put(LOSS_SCALE_SKIPPED, skipped)
        elif self._context.collector.probing:
            self._sink.put(LOSS_SCALE_SKIPPED, skipped)
        if self._context.collector.probing or skipped == 1.0 or self._sink.reads(scale):
            self._sink.put(LOSS_SCALE, scale)

    def _skipped(self, scaler: GradScaler, optimizer: Any) -> Tensor | float:
        """Return 1.0 for a skipped step: a fused optimizer skips on the device, others are not called."""
        if not self.stepped:
            return 1.0
        if not getattr(optimizer, "_step_supports_amp_scaling", False):
            return 0.0
        state = scaler._per_optimizer_states[id(optimizer)]
        found = list(state["found_inf_per_device"].values())
        if not found:
            return 0.0
        with measuring(found[0].device):
            flag = torch.stack([each.to(found[0].device, non_blocking=True) for each in found]).amax() > 0
            return flag.float()
