"""Results that a device sends steps later, put together by step."""

from __future__ import annotations

from typing import Any

from tb_netdebug.capture.collector import joined
from tb_netdebug.capture.torch_reader import TensorReader
from tb_netdebug.records.step import Sample, Series, Units
from tb_netdebug.stats import kernel

# (number of the step, what it is)
Key = Any


class Arrivals:
    """Keys of what was sent begin with the number of the step; here they find back to it."""

    def __init__(self, reader: TensorReader) -> None:
        self._reader = reader
        self._scalars: dict[int, dict[str, float]] = {}
        self._samples: dict[int, dict[Series, Sample]] = {}

    def end_step(self, step: int) -> bool:
        """Sends what the step has asked for; whether there was anything."""
        if not self._reader.uses_device:
            return False
        self._reader.device.flush()
        return True

    def take(self, *, wait: bool) -> list[tuple[int, dict[str, float], list[Sample]]]:
        """What has arrived, by step."""
        if not self._reader.uses_device:
            return []
        for collected in self._reader.device.drain() if wait else self._reader.device.ready():
            for key, summary in collected.summaries:
                self._add_summary(key, summary)
            for key, active in collected.units:
                self._add_units(key, active)
            for key, value in collected.scalars:
                self._add_scalar(key, value)
            for sums in collected.sums:
                self._add_norm(sums.key, sums.total, sums.nonfinite)
        steps = sorted({*self._scalars, *self._samples})
        taken = [
            (step, self._scalars.get(step, {}), list(self._samples.get(step, {}).values())) for step in steps
        ]
        self._scalars.clear()
        self._samples.clear()
        return taken

    def _of_step(self, key: Key) -> dict[str, float]:
        return self._scalars.setdefault(key[0], {})

    def _add_scalar(self, key: Key, value: float) -> None:
        self._of_step(key)[key[1]] = value

    def _add_summary(self, key: Key, summary: bytes) -> None:
        step, series = key
        if series is None:  # travelled along, but nobody asked for it
            return
        samples = self._samples.setdefault(step, {})
        known = samples.get(series)
        if known is None:
            samples[series] = Sample(series, summary)
        else:
            known.summary = kernel.merge([known.summary, summary])

    def _add_units(self, key: Key, active: bytes) -> None:
        step, series = key
        unit_count = self._reader.unit_counts.pop(key, 0)
        sample = self._samples.get(step, {}).get(series)
        if sample is not None and unit_count:
            units = Units(unit_count, active)
            sample.units = units if sample.units is None else joined(sample.units, units)

    def _add_norm(self, key: Key, squares: float, nonfinite: int) -> None:
        """Several optimizers step one after another; the norm is over all of them."""
        scalars = self._of_step(key)
        scalars["gradient_norm"] = (scalars.get("gradient_norm", 0.0) ** 2 + squares) ** 0.5
        scalars["nonfinite_gradients"] = scalars.get("nonfinite_gradients", 0.0) + nonfinite
