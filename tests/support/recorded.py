"""What a recorded run holds, worked out the slow way: every record, one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.eventlog.reader.views import ScalarColumns
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats.packed import Summary
from tests.support.record_cases import packed_of

WEIGHT, GRADIENT = Series(Kind.WEIGHT, "a.weight"), Series(Kind.GRADIENT, "a.weight")
UPDATE, ACTIVATION = Series(Kind.UPDATE, "a.weight"), Series(Kind.ACTIVATION, "a")
ALL_SERIES = (WEIGHT, GRADIENT, UPDATE, ACTIVATION)


@dataclass
class Recorded:
    """Of each scalar and tensor the newest recording of every step, by rising steps."""

    times: dict[int, float] = field(default_factory=dict)
    scalars: dict[str, dict[int, float]] = field(default_factory=dict)
    tensors: dict[Series, dict[int, Summary]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, *, rank: int = 0) -> Recorded:
        """What `read_run` finds."""
        columns = read_run(folder).ranks[rank]
        steps = columns.steps.tolist()
        whole = cls(dict(zip(steps, columns.wall_times.tolist(), strict=True)))
        for name, scalar in columns.scalars.items():
            rows = zip(scalar.rows.tolist(), scalar.values.tolist(), strict=True)
            whole.scalars[name] = dict(sorted({steps[row]: value for row, value in rows}.items()))
        for series, tensor in columns.tensors.items():
            rows = zip(tensor.rows.tolist(), tensor.summaries(), strict=True)
            whole.tensors[series] = dict(sorted({steps[row]: one for row, one in rows}.items()))
        return whole

    def check_scalar(self, name: str, found: ScalarColumns, *, first: int, last: int) -> None:
        """Every bucket says what its steps say, and none of the steps in the range is left out."""
        expected = {step: value for step, value in self.scalars[name].items() if first <= step <= last}
        assert found.count.sum() == len(expected)
        assert (np.diff(found.step) > 0).all()
        assert (found.step[1:] > found.last[:-1]).all()
        for at, (low, high) in enumerate(zip(found.step, found.last, strict=True)):
            values = [value for step, value in expected.items() if low <= step <= high]
            finite = [value for value in values if math.isfinite(value)]
            assert len(values) == found.count[at]
            assert len(values) - len(finite) == found.bad[at]
            assert same(found.min[at], min(finite, default=math.nan))
            assert same(found.max[at], max(finite, default=math.nan))
            assert same(found.mean[at], sum(finite) / len(finite) if finite else math.nan, nearly=True)
            assert same(found.end[at], values[-1])

    def samples(self, series: Series, *, first: float, last: float) -> list[Summary]:
        return [one for step, one in self.tensors[series].items() if first <= step <= last]


def same(found: float, expected: float, *, nearly: bool = False) -> bool:
    if math.isnan(expected):
        return bool(math.isnan(found))
    return bool(math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-300) if nearly else found == expected)


def opened(logdir: Path, name: str = ".", **options: int) -> FollowedRun:
    """The run, read up to its present end."""
    known = LogDir([("", str(logdir))], **options)
    known.refresh()
    run = known.open(name)
    run.refresh()
    return run


def sample(series: Series, step: int, *, size: int = 50) -> Sample:
    rng = np.random.default_rng([step + 10**6, series.kind])
    values = rng.normal(0, 1 + step % 7, size).astype(np.float32)
    if series.kind == Kind.ACTIVATION:
        values = np.maximum(values, 0)
    units = Units(16, bytes([step & 0xFF, 1])) if series.kind == Kind.ACTIVATION else None
    return Sample(series, packed_of(values), units)


def record(
    step: int, *, every: int = 4, series: Sequence[Series] = ALL_SERIES, offset: float = 0.0
) -> StepRecord:
    """A step with scalars of all sorts, some of them now and then, and samples in every so many."""
    scalars = {"loss": offset + math.sin(step * 0.1), "batch_size": float(2 + step % 3)}
    if step % 5 == 0:
        scalars["rare"] = float(-step)
    if step % 7 == 3:
        scalars["bad"] = [math.nan, math.inf, -math.inf, 1.0][step % 4]
    samples = [sample(one, step) for one in series] if step % every == 0 else []
    return StepRecord(step, 1.7e9 + step * 0.01, scalars, samples)


def write(
    folder: Path, records: Sequence[StepRecord], *, rank: int = 0, flush_every: int = 50, close: bool = True
) -> EventWriter:
    """By the real writer, with a block for so many records."""
    writer = EventWriter(folder, rank=rank, queue_bytes=1 << 30)
    for at, one in enumerate(records):
        writer.put(one)
        if at % flush_every == flush_every - 1:
            assert writer.flush()
    assert writer.flush()
    if close:
        writer.close()
    return writer
