"""One scalar over the training: the last steps one by one, the whole of it in a few windows."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

STEPS_KEPT = 512
MOST_WINDOWS = 64


@dataclass(slots=True)
class Window:
    """Some steps in a row; the numbers are those of the finite values."""

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
        return math.sqrt(max(self.squares / self.count - self.mean**2, 0.0))

    def add(self, step: int, value: float) -> None:
        self.last_step = step
        self.count += 1
        self.total += value
        self.squares += value * value
        self.lowest = min(self.lowest, value)
        self.highest = max(self.highest, value)

    def join(self, later: Window) -> None:
        self.last_step = later.last_step
        self.count += later.count
        self.total += later.total
        self.squares += later.squares
        self.lowest = min(self.lowest, later.lowest)
        self.highest = max(self.highest, later.highest)


@dataclass(slots=True)
class Curve:
    """`values` are the last ones as they came; `windows` cover all of it, each with as many finite values
    (but the last, which is being filled). When there are too many windows, two become one."""

    name: str
    steps: deque[int] = field(default_factory=lambda: deque(maxlen=STEPS_KEPT))
    values: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS_KEPT))
    count: int = 0
    nonfinite: int = 0
    first: float = math.nan
    lowest: float = math.inf
    highest: float = -math.inf
    windows: list[Window] = field(default_factory=list)
    window_size: int = 4

    def add(self, step: int, value: float) -> None:
        self.steps.append(step)
        self.values.append(value)
        self.count += 1
        if not math.isfinite(value):
            self.nonfinite += 1
            return
        if math.isnan(self.first):
            self.first = value
        if value < self.lowest:
            self.lowest = value
        if value > self.highest:
            self.highest = value
        windows = self.windows
        if not windows or windows[-1].count >= self.window_size:
            if len(windows) >= MOST_WINDOWS:
                self._widen()
            windows.append(Window(step, step))
        windows[-1].add(step, value)

    @property
    def last(self) -> float:
        return self.values[-1] if self.values else math.nan

    def tail(self, count: int = STEPS_KEPT) -> Doubles:
        """The newest finite values, at most so many, oldest first."""
        values = np.array(self.values, float)
        finite: Doubles = values[np.isfinite(values)][-count:]
        return finite

    def means(self) -> Doubles:
        """The mean of each full window."""
        return np.array([each.mean for each in self.windows if each.count >= self.window_size])

    def _widen(self) -> None:
        for even in range(MOST_WINDOWS // 2):
            self.windows[even].join(self.windows.pop(even + 1))
        self.window_size *= 2
