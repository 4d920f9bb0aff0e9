"""Small recorded runs for the tests of the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats.twin import summarize


def sample(kind: Kind, name: str, values: Sequence[float], *, active: Sequence[bool] | None = None) -> Sample:
    array = np.array(values, np.float32)
    units = None
    if active is not None:
        units = Units(len(active), np.packbits(active, bitorder="little").tobytes())
    return Sample(Series(kind, name), summarize([(array.ctypes.data, array.size, 0)], 1)[0], units)


def layer(name: str, weight: float, gradient: float, update: float) -> list[Sample]:
    """A parameter of one number in each kind."""
    values = {Kind.WEIGHT: weight, Kind.GRADIENT: gradient, Kind.UPDATE: update}
    return [sample(kind, f"{name}.weight", [value]) for kind, value in values.items()]


class RecordedRun:
    """Writes steps of which each is in the file when the call returns."""

    def __init__(self, run_dir: Path, *, rank: int = 0) -> None:
        self._writer = EventWriter(run_dir, rank=rank)
        self._next = 0
        self.path = run_dir  # the event file, as soon as there is one

    def add(
        self,
        steps: int = 1,
        *,
        samples: Sequence[Sample] = (),
        scalars: Mapping[str, float] | None = None,
        began: float = 1e9,
    ) -> None:
        """So many more steps, a tenth of a second apart, with the loss 1, 1/2, 1/3 and so on."""
        for _ in range(steps):
            step = self._next
            told = {"loss": 1 / (step + 1), "time/step": 0.1, **(scalars or {})}
            self._writer.put(StepRecord(step, began + step / 10, told, list(samples)))
            self._next += 1
        assert self._writer.flush()
        self.path = self._writer.path or self.path

    def close(self) -> None:
        self._writer.close()
