"""One scalar over the run: its last steps one by one, and all of it as a few windows.

`History` keeps one each.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

STEPS_KEPT = 512
MOST_WINDOWS = 64
# Fewer than STEPS_KEPT, so that the unread values are still there.
MOST_UNREAD = 64


@dataclass(slots=True)
class Window:
    """Some consecutive steps; all numbers are those of the finite values."""

    first_step: int
    last_step: int
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else math.nan

    @property
    def std(self) -> float:
        if not self.count:
            return math.nan
        # Rounding can make the difference of two nearly equal numbers slightly negative.
        return math.sqrt(max(self.squares / self.count - self.mean**2, 0.0))

    def add(self, last_step: int, values: Doubles) -> None:
        self.last_step = last_step
        self.count += len(values)
        self.total += float(values.sum())
        self.squares += float(values @ values)
        self.lowest = min(self.lowest, float(values.min()))
        self.highest = max(self.highest, float(values.max()))

    def join(self, later: Window) -> None:
        self.last_step = later.last_step
        self.count += later.count
        self.total += later.total
        self.squares += later.squares
        self.lowest = min(self.lowest, later.lowest)
        self.highest = max(self.highest, later.highest)


class Curve:
    """The values of one scalar, for the rules to read.

    `values` holds the last STEPS_KEPT as they came. `windows` covers the whole run: every window holds
    `window_size` finite values, except the last, which is being filled. When there are too many windows,
    pairs of them are merged.

    Adding a value is cheap: the windows are brought up to date for many values at once.
    """

    __slots__ = (
        "_first", "_highest", "_lowest", "_nonfinite", "_unread", "_windows",
        "count", "name", "steps", "values", "window_size",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: deque[int] = deque(maxlen=STEPS_KEPT)
        self.values: deque[float] = deque(maxlen=STEPS_KEPT)
        self.count = 0
        self.window_size = 4
        self._unread = 0
        self._nonfinite = 0
        self._first = math.nan
        self._lowest = math.inf
        self._highest = -math.inf
        self._windows: list[Window] = []

    def add(self, step: int, value: float) -> None:
        self.steps.append(step)
        self.values.append(value)
        self.count += 1
        self._unread += 1
        if self._unread >= MOST_UNREAD:
            self._read()

    @property
    def last(self) -> float:
        return self.values[-1] if self.values else math.nan

    @property
    def nonfinite(self) -> int:
        """The number of all values that were not finite."""
        self._read()
        return self._nonfinite

    @property
    def first(self) -> float:
        """The first finite value of the run."""
        self._read()
        return self._first

    @property
    def lowest(self) -> float:
        """The lowest finite value of the run; infinite while there is none."""
        self._read()
        return self._lowest

    @property
    def highest(self) -> float:
        self._read()
        return self._highest

    @property
    def windows(self) -> list[Window]:
        self._read()
        return self._windows

    def tail(self, count: int = STEPS_KEPT) -> Doubles:
        """Return the newest finite values, at most `count`, oldest first."""
        # The usual case: the newest values are all finite, and only they are copied.
        if count < len(self.values):
            newest: Doubles = np.array(list(islice(reversed(self.values), count))[::-1], float)
            if np.isfinite(newest).all():
                return newest
        values = np.array(self.values, float)
        finite: Doubles = values[np.isfinite(values)][-count:]
        return finite

    def means(self) -> Doubles:
        """Return the mean of each full window."""
        return np.array([each.mean for each in self.windows if each.count >= self.window_size])

    def _read(self) -> None:
        if not self._unread:
            return
        start = len(self.values) - self._unread
        self._unread = 0
        values = np.fromiter(islice(self.values, start, None), float)
        steps = np.fromiter(islice(self.steps, start, None), np.int64)
        finite = np.isfinite(values)
        if not finite.all():
            self._nonfinite += len(values) - int(np.count_nonzero(finite))
            values, steps = values[finite], steps[finite]
        if not len(values):
            return
        if math.isnan(self._first):
            self._first = float(values[0])
        self._lowest = min(self._lowest, float(values.min()))
        self._highest = max(self._highest, float(values.max()))
        self._fill(steps, values)

    def _fill(self, steps: NDArray[np.int64], values: Doubles) -> None:
        windows, place = self._windows, 0
        while place < len(values):
            if not windows or windows[-1].count >= self.window_size:
                if len(windows) >= MOST_WINDOWS:
                    self._widen()
                windows.append(Window(int(steps[place]), int(steps[place])))
            end = min(place + self.window_size - windows[-1].count, len(values))
            windows[-1].add(int(steps[end - 1]), values[place:end])
            place = end

    def _widen(self) -> None:
        for even in range(MOST_WINDOWS // 2):
            # Each pop moves the later windows up by one, so the next pair begins at even + 1.
            self._windows[even].join(self._windows.pop(even + 1))
        self.window_size *= 2
