"""How the loss has moved so far: in a network that learns, many signs mean nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary

from tb_netdebug.checks.curve import Curve
from tb_netdebug.checks.evidence.loss_curves import loss_of
from tb_netdebug.checks.history import History

# The loss at the start is a mean over this many steps, the present one over a quarter of all steps, bounded.
STEPS_AT_START = 4
MOST_STEPS_OF_NOW = 16


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a loss, in means.

    `start`, `before` and `now` are mean losses: of the first steps, of the last but one group, of the last
    group; `first` is the loss of the very first step; `steps` is how many losses there were.
    """

    steps: int
    first: float
    start: float
    before: float
    now: float

    @property
    def fallen(self) -> float:
        """The share of the loss at the start that is gone; negative if it has risen."""
        scale = max(abs(self.start), 1e-12)
        return (self.start - self.now) / scale if math.isfinite(self.now) else -math.inf

    @property
    def falling(self) -> float:
        """The share that is gone between the last two groups of steps."""
        scale = max(abs(self.before), 1e-12)
        return (self.before - self.now) / scale if math.isfinite(self.now) else -math.inf

    def is_worse(self, factor: float) -> bool:
        """Return whether the loss is `factor` times what it was before the first update, or not finite."""
        return not self.now < self.first + (factor - 1.0) * abs(self.first)

    @property
    def is_bottomless(self) -> bool:
        """Whether the loss is so far below zero that it has no lower bound: its fall is no progress."""
        return self.now < -100.0 * max(abs(self.first), 1.0)


class InitialLoss:
    """The loss at the start, remembered while the curve still has it, and the last answer."""

    def __init__(self) -> None:
        self.name = ""
        self.start = math.nan
        self.asked = (-1, "")
        self.told: Progress | None = None


# Shared by the rules of a run, and gone with its history.
_ALL: WeakKeyDictionary[History, InitialLoss] = WeakKeyDictionary()


def progress_of(history: History) -> Progress | None:
    """Return the progress, or None while there are fewer than four losses or no loss is known."""
    memory = _ALL.setdefault(history, InitialLoss())
    curve = loss_of(history)
    if curve is None:
        return None
    asked = (history.step, curve.name)
    if memory.asked != asked:
        if memory.name != curve.name:
            memory.name, memory.start = curve.name, math.nan
        memory.asked, memory.told = asked, told(curve, memory)
    return memory.told


def told(curve: Curve, memory: InitialLoss) -> Progress | None:
    if curve.count < STEPS_AT_START:
        return None
    if math.isnan(memory.start):
        memory.start = (
            mean(islice(curve.values, STEPS_AT_START))
            if len(curve.values) == curve.count
            else (curve.windows[0].mean if curve.windows else math.nan)
        )
    size = max(STEPS_AT_START, min(MOST_STEPS_OF_NOW, curve.count // 4))
    newest = list(islice(reversed(curve.values), 2 * size))
    before = newest[size:] or newest
    # A loss that is no longer finite makes the present one NaN: then nothing has been learned.
    now = math.fsum(newest[:size]) / size if all(map(math.isfinite, newest[:size])) else math.nan
    return Progress(curve.count, curve.first, memory.start, mean(before), now)


def mean(values: Iterable[float]) -> float:
    """Return the mean of the finite values; NaN if there is none."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def learns(history: History, share: float) -> bool:
    """Return whether at least this share of the first loss is gone."""
    progress = progress_of(history)
    return progress is not None and progress.fallen >= share
