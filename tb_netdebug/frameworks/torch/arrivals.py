"""Results that a device delivers steps later, put together again by step.

`adapter.TorchAdapter` asks for the completed steps; the results come from `reader.TensorReader.device`.
"""

from __future__ import annotations

from collections import deque
from operator import itemgetter
from typing import Any

from tb_netdebug.core.records.scalar_names import GRADIENT_NORM, NONFINITE_GRADIENTS
from tb_netdebug.core.records.step import Sample, Series, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.torch.reader import SKIPPED, TensorReader
from tb_netdebug.recording.collector import joined

# (number of the step, what was measured: a series, the name of a scalar, or a `Look`)
Key = Any
# (id of the optimizer, running number of the measurement)
Look = tuple[int, int]
# (sum of the squares, number of non-finite values on the host and of tensors with some on a device)
Squares = tuple[float, int]


class DeviceArrivals:
    """Assigns late results to their steps: each key that was sent begins with the number of its step."""

    def __init__(self, reader: TensorReader) -> None:
        self._reader = reader
        self._scalars: dict[int, dict[str, float]] = {}
        self._samples: dict[int, dict[Series, Sample]] = {}
        self._norms: dict[int, dict[Look, Squares]] = {}
        # (step, parcels sent by its end). A step may need several parcels: it is complete when that many
        # have been received.
        self._sent: deque[tuple[int, int]] = deque()
        self._received = 0

    def end_step(self, step: int) -> bool:
        """Send off what the step has measured, and return whether steps are completed later."""
        if not self._reader.uses_device:
            return False
        self._reader.device.flush()
        self._sent.append((step, self._reader.device.cost.parcels))
        return True

    def take(self, *, wait: bool) -> list[tuple[int, dict[str, float], list[Sample]]]:
        """Return the steps for which everything has arrived, in order. With `wait`, block for the rest."""
        if not self._reader.uses_device:
            return []
        for collected in self._reader.device.drain() if wait else self._reader.device.ready():
            self._received += 1
            for key, summary in collected.summaries:
                self._add_summary(key, summary)
            for key, active in collected.units:
                self._add_units(key, active)
            for key, value in collected.scalars:
                self._add_scalar(key, value)
            for sums in collected.sums:
                self._add_norm(sums.key, sums.total, sums.nonfinite)
        if not self._reader.device.pending_bytes:
            # Nothing is under way any more, so all that was sent counts as received.
            self._received = self._reader.device.cost.parcels
        complete: list[int] = []
        while self._sent and (wait or self._sent[0][1] <= self._received):
            complete.append(self._sent.popleft()[0])
        return [self._take(step) for step in complete]

    def _take(self, step: int) -> tuple[int, dict[str, float], list[Sample]]:
        norms = self._norms.pop(step, {})
        if norms:
            norms.update((key[1], sums) for key, sums in self._reader.whole_squares.items() if key[0] == step)
        # Steps are completed in order, so entries of older ones are no longer needed either.
        self._reader.forget(step)
        scalars = {**self._scalars.pop(step, {}), **norm_of(norms)}
        return step, scalars, list(self._samples.pop(step, {}).values())

    def _add_scalar(self, key: Key, value: float) -> None:
        self._scalars.setdefault(key[0], {})[key[1]] = value

    def _add_summary(self, key: Key, summary: bytes) -> None:
        step, series = key
        if series is None:  # a by-product of another summary that nobody asked for
            return
        samples = self._samples.setdefault(step, {})
        known = samples.get(series)
        if known is None:
            samples[series] = Sample(series, summary)
        else:
            # The series was sampled more than once in this step (a layer called repeatedly).
            known.summary = kernel.merge([known.summary, summary])

    def _add_units(self, key: Key, active: bytes) -> None:
        step, series = key
        unit_count = self._reader.unit_counts.get(key, 0)
        sample = self._samples.get(step, {}).get(series)
        if sample is not None and unit_count:
            units = Units(unit_count, active)
            sample.units = units if sample.units is None else joined(sample.units, units)

    def _add_norm(self, key: Key, squares: float, nonfinite: int) -> None:
        """Add the squares of one device; gradients may be spread over several devices and the host."""
        step, look = key
        sums = self._norms.setdefault(step, {})
        # The sum starts with the share of the host, if it has one.
        total, others = sums.get(look) or self._reader.host_squares.get(key, (0.0, 0))
        sums[look] = total + squares, others + nonfinite


def norm_of(sums: dict[Look, Squares]) -> dict[str, float]:
    """Return the gradient norm over all optimizers that stepped, from the last measurement of each."""
    if not sums:
        return {}
    last = {optimizer: sums[optimizer, number] for optimizer, number in sorted(sums, key=itemgetter(1))}
    scalars = {NONFINITE_GRADIENTS: float(sum(others for _, others in last.values()))}
    # A skipped step has no norm worth showing: its gradients overflowed.
    if SKIPPED not in last:
        scalars[GRADIENT_NORM] = sum(total for total, _ in last.values()) ** 0.5
    return scalars
