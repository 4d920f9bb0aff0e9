"""Several steps in one record: ranges of scalars, and tensor samples with merged summaries."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from tb_netdebug.core.records.step import Sample, StepRecord, Units
from tb_netdebug.core.stats import kernel


@dataclass(frozen=True, slots=True)
class ScalarRange:
    """A scalar over several steps.

    `count` is the number of measurements. `min`, `max` and `sum` cover the finite values (NaN, NaN and 0.0
    when there are none); `sum` adds the sums of the level below in their order. `first` and `last` are the
    values as measured, finite or not.
    """

    count: int
    nan: int
    pos_inf: int
    neg_inf: int
    min: float
    max: float
    sum: float
    first: float
    last: float

    @classmethod
    def of(cls, values: Sequence[float]) -> ScalarRange:
        """Return the range of at least one value."""
        finite = [value for value in values if math.isfinite(value)]
        nan = sum(map(math.isnan, values)) if len(finite) < len(values) else 0
        pos_inf = sum(value == math.inf for value in values) if len(finite) < len(values) else 0
        return cls(
            count=len(values),
            nan=nan,
            pos_inf=pos_inf,
            neg_inf=len(values) - len(finite) - nan - pos_inf,
            min=min(finite, default=math.nan),
            max=max(finite, default=math.nan),
            sum=_sum_in_order(finite),
            first=values[0],
            last=values[-1],
        )

    @classmethod
    def merged(cls, parts: Sequence[ScalarRange]) -> ScalarRange:
        """Return the union of at least one range, in the order of the steps."""
        finite = [part for part in parts if part.finite]
        return cls(
            count=sum(part.count for part in parts),
            nan=sum(part.nan for part in parts),
            pos_inf=sum(part.pos_inf for part in parts),
            neg_inf=sum(part.neg_inf for part in parts),
            min=min((part.min for part in finite), default=math.nan),
            max=max((part.max for part in finite), default=math.nan),
            sum=_sum_in_order([part.sum for part in parts]),
            first=parts[0].first,
            last=parts[-1].last,
        )

    @property
    def finite(self) -> int:
        return self.count - self.nan - self.pos_inf - self.neg_inf

    @property
    def mean(self) -> float:
        return self.sum / self.finite if self.finite else math.nan


class DetailSample(NamedTuple):
    """One sample that stands for `merged` samples of a tensor, taken from `first_step` to `last_step`."""

    first_step: int
    last_step: int
    merged: int
    sample: Sample

    @classmethod
    def of(cls, parts: Sequence[DetailSample]) -> DetailSample:
        """Merge at least one part; a unit is active when it was active in any of them."""
        summary = kernel.merge([part.sample.summary for part in parts])
        units = _active_in_any([part.sample.units for part in parts if part.sample.units is not None])
        return cls(
            first_step=parts[0].first_step,
            last_step=parts[-1].last_step,
            merged=sum(part.merged for part in parts),
            sample=Sample(parts[0].sample.series, summary, units),
        )


@dataclass(slots=True)
class DetailRecord:
    """Several consecutive steps (`steps` of them) as one record of a level.

    The samples have step ranges of their own, because tensors are sampled less often than scalars.
    """

    level: int
    first_step: int
    last_step: int
    first_time: float
    last_time: float
    steps: int
    scalars: dict[str, ScalarRange] = field(default_factory=dict)
    samples: list[DetailSample] = field(default_factory=list)


def of_steps(records: Sequence[StepRecord]) -> DetailRecord:
    """Merge steps into a record of the first level, without tensor samples."""
    columns: dict[str, list[float]] = {}
    for record in records:
        for name, value in record.scalars.items():
            columns.setdefault(name, []).append(value)
    first, last = records[0], records[-1]
    scalars = {name: ScalarRange.of(values) for name, values in columns.items()}
    return DetailRecord(1, first.step, last.step, first.wall_time, last.wall_time, len(records), scalars)


def of_details(records: Sequence[DetailRecord]) -> DetailRecord:
    """Merge records of one level into one of the next, without tensor samples."""
    columns: dict[str, list[ScalarRange]] = {}
    for record in records:
        for name, part in record.scalars.items():
            columns.setdefault(name, []).append(part)
    first, last = records[0], records[-1]
    return DetailRecord(
        level=first.level + 1,
        first_step=first.first_step,
        last_step=last.last_step,
        first_time=first.first_time,
        last_time=last.last_time,
        steps=sum(record.steps for record in records),
        scalars={name: ScalarRange.merged(parts) for name, parts in columns.items()},
    )


def _active_in_any(parts: Sequence[Units]) -> Units | None:
    if not parts:
        return None
    count = max(part.count for part in parts)
    active = reduce(operator.or_, (int.from_bytes(part.active, "little") for part in parts))
    return Units(count, active.to_bytes((count + 7) // 8, "little"))


def _sum_in_order(terms: Sequence[float]) -> float:
    """Add floats from left to right.

    `sum` is more exact since Python 3.12, and stored numbers must not depend on the version of Python.
    """
    return reduce(operator.add, terms, 0.0)
