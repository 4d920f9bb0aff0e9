"""Sketches of many samples, added up bin by bin; used by `recorded_views.py` and `tensor_views.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.stats.packed import BINS
from tb_netdebug.core.stats.sketch import FINITE_BY_VALUE, LOWER, UPPER

Doubles = NDArray[np.float64]


class Tally:
    """The number of finite values in each bin, by rising value, for each of `count` places."""

    def __init__(self, packed: Sequence[bytes | None], places: NDArray[np.int64], count: int) -> None:
        data = scanner.native.tally(packed, np.ascontiguousarray(places, np.int64).tobytes(), count)
        dense = np.frombuffer(data).reshape(count, BINS)
        self.counts: Doubles = dense[:, FINITE_BY_VALUE]

    def quantiles(self, shares: Doubles, least: Doubles, most: Doubles) -> Doubles:
        """Return the quantiles at each place, NaN without values; `least` and `most` are the exact bounds."""
        found = np.full((len(self.counts), len(shares)), np.nan)
        for place, counts in enumerate(self.counts):
            lower, upper, held = occupied(counts, least[place], most[place])
            if len(held):
                found[place] = _quantiles(lower, upper, held, shares, least[place], most[place])
        return found

    def bins(self, place: int, least: float, most: float) -> tuple[Doubles, Doubles, Doubles]:
        """Return lower edge, upper edge and count of the occupied bins; the outermost edges are exact."""
        return occupied(self.counts[place], least, most)


def occupied(counts: Doubles, least: float, most: float) -> tuple[Doubles, Doubles, Doubles]:
    used = np.flatnonzero(counts)
    lower, upper = LOWER[FINITE_BY_VALUE[used]], UPPER[FINITE_BY_VALUE[used]]
    if len(used):
        lower[0], upper[-1] = least, most
    return lower, upper, counts[used]


def _quantiles(
    lower: Doubles, upper: Doubles, counts: Doubles, shares: Doubles, least: float, most: float
) -> Doubles:
    below = np.concatenate([[0.0], np.cumsum(counts)])
    rank = shares * below[-1]
    at = np.clip(np.searchsorted(below, rank, side="left") - 1, 0, len(counts) - 1)
    with np.errstate(invalid="ignore"):  # a hostile file may give any bounds
        inside = (rank - below[at]) / counts[at]
        values: Doubles = lower[at] * (1.0 - inside) + upper[at] * inside
        return np.clip(values, least, most)
