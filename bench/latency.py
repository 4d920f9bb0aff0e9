"""From when steps ended, and when which of them were seen, to how late they were seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Lateness:
    """In milliseconds. `unseen` counts the steps that were never seen; their delays are those until the end
    of the observation, so that the other numbers are too small rather than missing."""

    steps: int
    unseen: int
    median: float
    p95: float
    most: float

    @classmethod
    def of(cls, delays: Doubles, unseen: int) -> Lateness:
        """Of seconds; at least one."""
        median, p95, most = 1000 * np.percentile(delays, [50, 95, 100])
        return cls(len(delays), unseen, float(median), float(p95), float(most))


@dataclass(frozen=True, slots=True)
class Spread:
    """Of some numbers, at least one."""

    least: float
    median: float
    p95: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(*np.percentile(np.array(values, np.float64), [0, 50, 95, 99, 100]).tolist())


def delays_of(
    steps: NDArray[np.int64],
    times: Doubles,
    seen: Sequence[tuple[float, int]],
    *,
    since: float,
    until: float,
) -> tuple[Doubles, int]:
    """For each step that ended at `since` or later: the seconds until something was seen that reaches as far,
    else until `until`; and the number of those others. `seen` are times with the last step in sight."""
    counted = times >= since
    steps, times = steps[counted], times[counted]
    order = sorted(seen)
    # A view may show fewer steps than the one before; what was seen once has been seen.
    reach = np.maximum.accumulate(np.array([last for _, last in order], np.int64))
    moments = np.array([*(at for at, _ in order), until])
    first = np.searchsorted(reach, steps, "left")
    return np.maximum(moments[first] - times, 0.0), int(np.count_nonzero(first == len(reach)))
