"""The views of a run as plain columns, the same whichever program wrote the files."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ScalarColumns:
    """A scalar over the steps, as columns of one length; each row is a bucket of one or more steps.

    `step` and `last` are its first and last step, `time` the wall time of the first. `samples` is the number
    of training samples up to the end of the bucket, NaN if batch sizes were not recorded. `mean`, `min` and
    `max` are over the finite values, of which there are `count - bad`; `end` is the last value, finite or
    not.
    """

    step: Doubles
    last: Doubles
    time: Doubles
    samples: Doubles
    mean: Doubles
    min: Doubles
    max: Doubles
    bad: Doubles
    end: Doubles
    count: Doubles


@dataclass(frozen=True, slots=True, eq=False)
class ScalarView:
    """Scalars by name; `level` is the level of detail that most of it comes from, 0 for single steps."""

    level: int
    scalars: dict[str, ScalarColumns]


@dataclass(frozen=True, slots=True, eq=False)
class HeatView:
    """One statistic of many tensors, NaN where a tensor has no sample.

    A column holds the samples from step `first` to step `last`. Steps without any sample have no column, so a
    column is best drawn up to the next one's `first`.
    """

    names: list[str]
    first: Doubles
    last: Doubles
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class BandView:
    """One tensor over the steps: `quantiles` has a column for each of statistics.QUANTILES."""

    first: Doubles
    last: Doubles
    quantiles: Doubles
    statistics: dict[str, Doubles]


@dataclass(frozen=True, slots=True, eq=False)
class HistogramView:
    """The values of `merged` samples of one tensor, taken from step `first` to `last`, in bins by value."""

    first: int
    last: int
    merged: int
    statistics: dict[str, float]
    lower: Doubles
    upper: Doubles
    counts: Doubles
    nan: int
    pos_inf: int
    neg_inf: int
    zeros: int
    units_active: int | None
    units: int | None


@dataclass(frozen=True, slots=True, eq=False)
class RidgeView:
    """Histograms one behind the other; histogram i has the bins from offsets[i] up to offsets[i + 1]."""

    first: Doubles
    last: Doubles
    offsets: NDArray[np.int32]
    lower: Doubles
    upper: Doubles
    counts: Doubles
    nonfinite: Doubles


@dataclass(frozen=True, slots=True, eq=False)
class TableView:
    """The newest sample of each tensor of a kind, at or before a step; `steps` are those of the samples."""

    names: list[str]
    steps: Doubles
    statistics: dict[str, Doubles]
