"""The statistics of tensors that can be shown, from the exact numbers and the sketches of their samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

EXACT = (
    "count", "mean", "std", "norm", "rms", "min", "max", "abs_max", "zeros", "nan", "pos_inf", "neg_inf",
    "nonfinite",
)  # fmt: skip
FROM_SKETCH = {"median": 0.5, "p01": 0.01, "p99": 0.99}
STATISTICS = (*EXACT, *FROM_SKETCH, "inactive_units")
RATIO = "ratio"
QUANTILES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)

SUMS = ("count", "nan", "pos_inf", "neg_inf", "zeros", "sum", "sum_squares")


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over the samples at each place; `merged` is the number of samples, 0 where there are none.

    `inactive` is the smallest share of inactive units in any one of the samples: the share of units that were
    never active is at most that.
    """

    merged: Doubles
    count: Doubles
    nan: Doubles
    pos_inf: Doubles
    neg_inf: Doubles
    zeros: Doubles
    sum: Doubles
    sum_squares: Doubles
    min: Doubles
    max: Doubles
    inactive: Doubles

    @classmethod
    def of(cls, table: NDArray[np.void], places: NDArray[np.int64], count: int) -> Moments:
        """Return the moments of samples (columns_twin.SAMPLE), each at its place among `count`."""
        headers = table["header"]
        merged = _sums(places, table["merged"], count)
        sums = {name: _sums(places, headers[name], count) for name in SUMS}
        least, most, inactive = (np.full(count, np.nan) for _ in range(3))
        np.fmin.at(least, places, headers["min"])
        np.fmax.at(most, places, headers["max"])
        np.fmin.at(inactive, places, inactive_of(table))
        return cls(merged=merged, min=least, max=most, inactive=inactive, **sums)

    def statistic(self, name: str) -> Doubles:
        """Return a statistic at each place, NaN without samples. Raises KeyError if it needs a sketch."""
        with np.errstate(all="ignore"):
            values: Doubles = np.where(self.merged > 0, _FORMULAS[name](self), np.nan)
        return values

    @property
    def finite(self) -> Doubles:
        return self.count - self.nan - self.pos_inf - self.neg_inf


def _sums(places: NDArray[np.int64], values: NDArray[Any], count: int) -> Doubles:
    sums: Doubles = np.bincount(places, values.astype(np.float64), count).astype(np.float64)
    return sums


def inactive_of(table: NDArray[np.void]) -> Doubles:
    units = np.maximum(table["units"], 0)
    with np.errstate(all="ignore"):
        shares: Doubles = 1.0 - np.minimum(table["active"], units) / np.where(units > 0, units, np.nan)
    return shares


def _std(one: Moments) -> Doubles:
    mean = one.sum / one.finite
    # Rounding can make the difference of two nearly equal numbers slightly negative.
    std: Doubles = np.sqrt(np.maximum(one.sum_squares / one.finite - mean * mean, 0.0))
    return std


# Counts and norms are those of the average sample, so that they mean the same whether many samples were
# merged or few.
_FORMULAS: dict[str, Callable[[Moments], Doubles]] = {
    "count": lambda one: one.count / one.merged,
    "mean": lambda one: one.sum / one.finite,
    "std": _std,
    "norm": lambda one: np.sqrt(one.sum_squares / one.merged),
    "rms": lambda one: np.sqrt(one.sum_squares / one.finite),
    "min": lambda one: one.min,
    "max": lambda one: one.max,
    "abs_max": lambda one: np.fmax(np.abs(one.min), np.abs(one.max)),
    "zeros": lambda one: one.zeros / one.count,
    "nan": lambda one: one.nan / one.merged,
    "pos_inf": lambda one: one.pos_inf / one.merged,
    "neg_inf": lambda one: one.neg_inf / one.merged,
    "nonfinite": lambda one: (one.nan + one.pos_inf + one.neg_inf) / one.count,
    "inactive_units": lambda one: one.inactive,
}
