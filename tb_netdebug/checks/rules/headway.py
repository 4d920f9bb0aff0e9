"""How far the loss has come: what rules over data and settings hold against their suspicion."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tb_netdebug.checks.history import History
from tb_netdebug.checks.phrases import number
from tb_netdebug.checks.rules.loss_course import course
from tb_netdebug.checks.rules.loss_curves import main_curves
from tb_netdebug.checks.rules.progress import mean
from tb_netdebug.core.records.scalar_names import LOSS

FIRST = 4
NEWEST = 8
# Of the last steps to the two times as many before them: less is more than chance.
FALLING = 0.93


@dataclass(frozen=True, slots=True)
class Headway:
    """`first` is the very first loss; `start`, `before` and `now` are means: of the first steps, of those
    before the last, and of the last. `baseline` is what the best constant answer would get on such batches,
    NaN when it is not known. `nonfinite` counts losses that were no numbers."""

    steps: int
    first: float
    start: float
    before: float
    now: float
    baseline: float
    nonfinite: int

    @property
    def share_of_start(self) -> float:
        return self.now / self.start if self.start > 0 else math.nan

    @property
    def share_of_baseline(self) -> float:
        return self.now / self.baseline if self.baseline > 0 else math.nan

    @property
    def is_falling(self) -> bool:
        return self.now < FALLING * self.before

    @property
    def words(self) -> str:
        """The loss, and what it is to be compared with."""
        if self.nonfinite:
            return f"the loss was not finite in {self.nonfinite} of {self.steps} steps"
        beside = f"; a constant answer would have {number(self.baseline)}" if self.baseline > 0 else ""
        return f"the loss went from {number(self.first)} to {number(self.now)} in {self.steps} steps{beside}"


def headway(history: History) -> Headway | None:
    """None while there are too few losses to say anything. In units of the loss that is recorded: where that
    is a mean, and the loss function adds up, nobody would know the numbers of the latter."""
    curve, baseline = main_curves(history)
    if curve is None or curve.count < FIRST + NEWEST:
        return None
    values = curve.tail(3 * NEWEST)
    now, before = mean(values[-NEWEST:]), mean(values[:-NEWEST])
    base = math.nan
    if baseline is not None and curve.nonfinite == 0:
        # batches differ, and with them what is easy: compared is what was asked at the same time
        bases = baseline.tail(3 * NEWEST)
        base = mean(bases[-NEWEST:])
        before *= base / max(mean(bases[:-NEWEST]), 1e-30)
    start = curve.windows[0].mean if curve.windows else math.nan
    unit = 1.0 if curve.name == LOSS else factor(history)
    first, start, before, now, base = (unit * each for each in (curve.first, start, before, now, base))
    return Headway(history.steps, first, start, before, now, base, curve.nonfinite)


def factor(history: History) -> float:
    """Of the recorded loss to what the loss function returned; 1 where they have little to do with each
    other."""
    found = course(history).calls.factor
    return found if found > 0 else 1.0
