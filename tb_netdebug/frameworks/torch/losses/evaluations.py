"""The mean loss of calls that record no gradients: evaluations between training steps."""

from __future__ import annotations

from torch import Tensor

from tb_netdebug.core.records.scalar_names import EVALUATION_LOSS
from tb_netdebug.frameworks.torch.losses.functions import LossCall
from tb_netdebug.frameworks.torch.losses.scalar_sink import ScalarSink, measuring


class Evaluations:
    """Averages loss functions that the run also minimises; others are not comparable with its loss."""

    def __init__(self, sink: ScalarSink) -> None:
        self._sink = sink
        self._trained: set[tuple[str, str]] = set()
        self._host_total = 0.0
        self._device_total: Tensor | None = None
        self.calls = 0

    def expect(self, call: LossCall) -> None:
        """Note a training call: its function and reduction are what evaluations are compared with."""
        self._trained.add((call.function.name, call.reduction))

    def add(self, call: LossCall) -> None:
        """Add the loss of an evaluation, on its device if it lies on one."""
        # Until a training call has been seen, every function counts.
        if self._trained and (call.function.name, call.reduction) not in self._trained:
            return
        with measuring(call.output.device):
            value = call.output.detach().mean()
            if self._sink.reads(value):
                self._host_total += float(value)
            elif self._device_total is None:
                # Apple's devices have no float64.
                self._device_total = value.double() if value.device.type != "mps" else value.clone()
            elif self._device_total.device == value.device:
                self._device_total = self._device_total + value
            else:
                return
        self.calls += 1

    def end_step(self) -> None:
        """Record the mean, unless the user has reported one. Called only after a step with calls."""
        if not self._sink.has(EVALUATION_LOSS):
            total: Tensor | float = self._host_total
            if self._device_total is not None:
                with measuring(self._device_total.device):
                    total = (self._device_total + total) / self.calls
            else:
                total = self._host_total / self.calls
            self._sink.put(EVALUATION_LOSS, total)
        self._host_total, self._device_total, self.calls = 0.0, None, 0
