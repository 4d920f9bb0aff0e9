"""How far the loss has come: rules over data and settings check it before they report a suspicion."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tb_netdebug.checks.evidence.loss_course import course
from tb_netdebug.checks.evidence.loss_curves import main_curves
from tb_netdebug.checks.evidence.progress import mean
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.scalar_names import LOSS

FIRST = 4
NEWEST = 8
# Mean of the last steps relative to that of twice as many before them: below this it is more than chance.
FALLING = 0.93


@dataclass(frozen=True, slots=True)
class Headway:
    """The progress of the loss, in means over steps.

    `first` is the very first loss; `start`, `before` and `now` are means: of the first steps, of those before
    the last, and of the last. `baseline` is what the best constant answer would get on such batches, NaN if
    it is not known. `nonfinite` counts losses that were not finite.
    """

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
        """The loss, and what to compare it with, in words."""
        if self.nonfinite:
            return f"the loss was not finite in {self.nonfinite} of {self.steps} steps"
        beside = f"; a constant answer would have {number(self.baseline)}" if self.baseline > 0 else ""
        return f"the loss went from {number(self.first)} to {number(self.now)} in {self.steps} steps{beside}"


def headway(history: History) -> Headway | None:
    """Return how far the loss has come, or None while there are too few losses.

    All values are in units of the recorded loss. Where that is a mean and the loss function adds up, nobody
    would recognise the numbers of the latter.
    """
    curve, baseline = main_curves(history)
    if curve is None or curve.count < FIRST + NEWEST:
        return None
    values = curve.tail(3 * NEWEST)
    now, before = mean(values[-NEWEST:]), mean(values[:-NEWEST])
    base = math.nan
    if baseline is not None and curve.nonfinite == 0:
        # Batches differ in how hard they are, so each loss is compared with the baseline of the same steps.
        bases = baseline.tail(3 * NEWEST)
        base = mean(bases[-NEWEST:])
        before *= base / max(mean(bases[:-NEWEST]), 1e-30)
    start = curve.windows[0].mean if curve.windows else math.nan
    unit = 1.0 if curve.name == LOSS else factor(history)
    first, start, before, now, base = (unit * each for each in (curve.first, start, before, now, base))
    return Headway(history.steps, first, start, before, now, base, curve.nonfinite)


def factor(history: History) -> float:
    """Return the factor from the loss function's value to the recorded loss; 1 if they are hardly related."""
    found = course(history).calls.factor
    return found if found > 0 else 1.0
