"""Rules over the learning rate: zero, or too high."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.curve import Curve
from tb_netdebug.checks.evidence.headway import NEWEST, Headway, headway
from tb_netdebug.checks.evidence.loss_course import course as course_of
from tb_netdebug.checks.evidence.loss_shape import is_falling
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.numbers_forward import is_lost
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.nonfinite_origin import is_in_the_batch, traced_origin
from tb_netdebug.checks.wording.phrases import counted, number, percent
from tb_netdebug.core.records.scalar_names import LOSS, RATES, TIME_OPTIMIZER, UPDATES_MADE
from tb_netdebug.core.records.step import Kind, StepRecord

# A weight that equals its first update, up to rounding, was 0 before it: any step is large for it.
FROM_ZERO = 1e-5
# Records of other processes arrive by the clock; a silent process is not awaited beyond this.
MOST_STEPS_AWAITED = 1024
NOT_THE_RATE = Sign(
    Severity.INFO,
    "The learning rate was not the cause: the origin of the first NaN is now known.",
    "See `nonfinite-input`, `nonfinite-loss` or `nonfinite-activation`.",
    {},
    is_over=True,
)


@dataclass(frozen=True, slots=True)
class LearningRateZeroLimits:
    rate: float = 1e-12  # with such a rate, nothing is learned
    share: float = 1e-7  # of the highest rate so far: a schedule that has run out
    steps: float = 2  # from the beginning; a warm-up may start at 0 for one step
    later_steps: float = 24  # after other rates: schedules may end at 0 with the last steps
    later_share: float = 0.1  # and they may do so for this share of the run


class LearningRateZero(Rule):
    """The optimizer steps with a learning rate of 0 in all groups."""

    slug = "learning-rate-zero"
    when = When.SAMPLES  # the first steps all have samples, so it is reported at once
    needs = ("learning-rate",)
    limits = LearningRateZeroLimits()

    def __init__(self) -> None:
        self._zeros = self._others = 0
        self._since = 0
        self._step = -1
        self._highest = 0.0

    def update(self, history: History) -> Sign | None:
        curves = list(history.curves(RATES))
        if not curves:
            return None
        for step, rate in fresh_rates(curves, self._step):
            self._take(step, rate)
        self._step = history.step
        made = updates_made(history)
        if made is None or not self._zeros:
            return None
        if self._others:
            needed = max(self.limits.later_steps, self.limits.later_share * history.steps)
            return self._sign(history, Severity.WARNING) if self._zeros >= needed else None
        # batches that are only accumulated do not count
        enough = min(self._zeros, made) >= self.limits.steps
        return self._sign(history, Severity.ERROR) if enough else None

    def _take(self, step: int, rate: float) -> None:
        limits = self.limits
        is_number = math.isfinite(rate)
        self._highest = max(self._highest, rate) if is_number else self._highest
        if is_number and rate <= max(limits.rate, limits.share * self._highest):
            if not self._zeros:
                self._since = step
            self._zeros += 1
        else:
            self._zeros = 0
            self._others += 1

    def _sign(self, history: History, severity: Severity) -> Sign:
        fell = f" It was {number(self._highest)} at most." if self._others else ""
        return Sign(
            severity,
            f"The learning rate is {number(rate_now(history), 2)} in every group of parameters, for "
            f"{counted(self._zeros, 'step')} now (more than {percent(self.limits.share)} of the highest is "
            f"needed to learn): the weights do not change.{fell}",
            "Check the schedule: is its length counted in batches or in epochs, as `scheduler.step()` is "
            "called? Does it contain an integer division? Print `scheduler.get_last_lr()`.",
            {
                "learning rate": Evidence(
                    rate_now(history), max(self.limits.rate, self.limits.share * self._highest)
                ),
                "steps": Evidence(float(self._zeros), self.limits.steps),
            },
            since=self._since,
            sureness=0.97,
        )


def updates_made(history: History) -> float | None:
    """Return how many steps optimizers have made so far, at least, or None if that is not known."""
    made, timed = history.curve(UPDATES_MADE), history.curve(TIME_OPTIMIZER)
    if made is not None:
        return made.last
    return None if timed is None else float(timed.count)


def is_loss_gone(record: StepRecord) -> bool:
    """Return whether the loss of this step is not finite, and the weights took it up."""
    return not math.isfinite(record.scalars.get(LOSS, 0.0)) and is_lost(record)


def rate_now(history: History) -> float:
    return max((curve.last for curve in history.curves(RATES)), default=math.nan)


def fresh_rates(curves: Sequence[Curve], since: int) -> list[tuple[int, float]]:
    """Return the highest rate of all groups in each step after `since`, oldest first."""
    highest: dict[int, float] = {}
    for curve in curves:
        for step, rate in zip(reversed(curve.steps), reversed(curve.values), strict=True):
            if step <= since:
                break
            highest[step] = max(highest.get(step, rate), rate)
    return sorted(highest.items())


@dataclass(frozen=True, slots=True)
class LearningRateHighLimits:
    ratio: float = 0.3  # update relative to the weight; 0.001 is usual, and at 1 nothing of a weight is left
    sure_ratio: float = 0.1  # enough where the loss has clearly gone wrong
    steps: float = 24  # a loss may rise at first and recover
    rise: float = 2.0  # times: the loss relative to its start, or to that of a constant answer
    stuck: float = 0.97  # likewise: no better than before
    stuck_steps: float = 40
    error_rise: float = 10.0
    # times: growth of a layer's outputs; decides where the loss is neither good nor bad, …
    growth: float = 100.0
    low: float = 0.7  # … while the loss is above this share of its start, or of a constant answer's, …
    still: float = 0.01  # … and falls by less than this in the last stuck_steps, if that is known
    calm: float = 50  # steps since the last large one: a NaN of known origin is no effect of it any more


class LearningRateHigh(Rule):
    """Updates are about as large as the weights, and the loss does not fall or blows up."""

    slug = "learning-rate-high"
    when = When.STEPS
    needs = ("loss", "updates", "weights", "learning-rate")
    limits = LearningRateHighLimits()

    def __init__(self) -> None:
        self._looks = 0
        self._from_zero: set[int] = set()
        self._gone_step: int | None = None  # the step since which the loss is not finite …
        self._is_of_other = False  # … because of the batch, or of an operation long after large steps
        self._is_said_of_gone = False
        self._ratio = 0.0
        self._since = 0
        self._last_large = 0  # the newest sampled step with a large share …
        self._is_calm = False  # … and whether a later sample had a small one

    def update(self, history: History) -> Sign | None:
        self._look(history)
        if self._gone_step is None:
            self._gone_step = next((each.step for each in history.recent if is_loss_gone(each)), None)
        curve = history.curve(LOSS)
        if self._ratio < self.limits.sure_ratio or curve is None or rate_now(history) <= 0:
            return None
        course = headway(history)
        if self._gone_step is not None:
            return self._of_gone_loss(history, course, self._gone_step)
        if course is None or course.steps < self.limits.steps:
            return None
        return self._judge(history, course)

    def _of_gone_loss(self, history: History, course: Headway | None, step: int) -> Sign | None:
        self._is_of_other = self._is_of_other or is_in_the_batch(history) or self._is_too_late(history, step)
        if self._is_of_other:
            return NOT_THE_RATE if self._is_said_of_gone else None
        if not self._is_said_of_gone and may_be_of_another(history, step):
            return None
        self._is_said_of_gone = True
        return self._sign(history, course, Severity.ERROR, "the loss is no longer finite")

    def _is_too_late(self, history: History, step: int) -> bool:
        """Return whether the loss was lost long after the large steps, by a known operation.

        Large steps that have done lasting harm show in the loss before.
        """
        origin = traced_origin(history, history.step)
        curve = history.curve(LOSS)
        if origin is None or origin.what == "unknown" or curve is None or not self._is_calm:
            return False
        before = [value for value in curve.values if math.isfinite(value)][-NEWEST:]
        # The larger of both, because a multiple of a negative loss lies below it.
        bound = max(curve.first, self.limits.rise * curve.first)
        is_long = step - self._last_large >= self.limits.calm
        return is_long and bool(before) and sum(before) / len(before) <= bound

    def _look(self, history: History) -> None:
        """Remember the largest share of the weights that one step has changed, for half of all tensors."""
        fresh = min(history.updates.looks - self._looks, 16)  # as many as the table remembers
        if fresh <= 0 or not history.weights.looks:
            return
        self._looks = history.updates.looks
        updates, weights = history.paired(Kind.UPDATE, Kind.WEIGHT)
        changed = history.updates.past("rms", fresh)[:, updates]
        whole = history.weights.past("rms", fresh)[:, weights]
        if changed.shape != whole.shape:
            return
        with np.errstate(all="ignore"):
            ratios = changed / whole
        ratios[~np.isfinite(ratios)] = np.nan
        if fresh == history.updates.looks:  # the first sample: a weight that equals its update was 0 before
            self._from_zero = set(updates[np.abs(ratios[0] - 1) < FROM_ZERO].tolist())
        ratios[:, [place in self._from_zero for place in updates.tolist()]] = np.nan
        for step, row in zip(history.updates.steps[-fresh:], ratios, strict=True):
            known = row[~np.isnan(row)]
            ratio = float(np.median(known)) if len(known) else 0.0
            if ratio > self._ratio:
                self._ratio, self._since = ratio, step
            if ratio >= self.limits.sure_ratio:
                self._last_large, self._is_calm = step, False
            elif len(known):
                self._is_calm = True

    def _judge(self, history: History, course: Headway) -> Sign | None:
        limits = self.limits
        has_baseline = course.baseline > 0
        # A run that began far above a constant answer and comes down is learning.
        reference = max(course.baseline, course.first) if has_baseline else course.first
        rise = course.now / reference if reference > 0 else math.nan
        # A loss that no known function gave may rise for good reasons, as that of an agent does.
        if rise > limits.rise and (has_baseline or self._ratio >= limits.ratio):
            severity = Severity.ERROR if rise > limits.error_rise else Severity.WARNING
            return self._sign(history, course, severity, course.words)
        is_stuck = course.steps >= limits.stuck_steps and rise > limits.stuck
        if is_stuck and self._ratio >= limits.ratio:
            return self._sign(history, course, Severity.WARNING, course.words)
        is_low = 0 < course.now < limits.low * reference
        is_learning = is_low or (has_baseline and self._moves(history))
        growth = 0.0 if is_learning or self._ratio < limits.ratio else largest_growth(history)
        if growth > limits.growth:
            effect = f"the outputs of a layer became {number(growth)} times as large as they were"
            return self._sign(history, course, Severity.WARNING, f"{effect}; {course.words}")
        return None

    def _moves(self, history: History) -> bool:
        """Return whether the loss still falls, or may rise as in a game; True while that is not known."""
        seen, steps = course_of(history), int(self.limits.stuck_steps)
        newest = seen.values[-steps:]
        return seen.may_rise or len(newest) < steps or is_falling(newest, share=self.limits.still)

    def _sign(self, history: History, course: Headway | None, severity: Severity, effect: str) -> Sign:
        rate = rate_now(history)
        evidence = {
            "largest update as a share of the weights": Evidence(self._ratio, self.limits.sure_ratio),
            "learning rate": Evidence(rate),
        }
        if course is not None:
            evidence["loss"] = Evidence(course.now, course.first)
        return Sign(
            severity,
            f"With a learning rate of {number(rate)}, one step changed half of the weight tensors by "
            f"{percent(self._ratio)} of their size or more (about 0.1 % is usual, "
            f"{percent(self.limits.sure_ratio)} is too much), and {effect}.",
            "Divide the learning rate by 10, and again if that is not enough (try "
            f"lr={number(rate / 10, 1)}); a warm-up over the first steps and {Idiom.CLIPPING} help, too.",
            evidence,
            since=self._since,
            sureness=0.85,
        )


def may_be_of_another(history: History, step: int) -> bool:
    """Return whether other processes have yet to report on this step: they may have made the NaN.

    Averaged gradients carry a NaN of one process into all.
    """
    processes = history.info.get("processes")
    others = processes - 1 if type(processes) is int else 0
    heard = sum(rank.step >= step for rank in history.ranks.values())
    return heard < others and history.step - step < MOST_STEPS_AWAITED


def largest_growth(history: History) -> float:
    """Return the size of a layer's outputs relative to the first sample, for the layer that grew most."""
    first, now = history.activations.first, history.activations.past("rms", 1)
    if first is None or not len(now):
        return 0.0
    with np.errstate(all="ignore"):
        growth = now[0, : len(first.rms)] / first.rms
    known = growth[np.isfinite(growth)]
    return float(known.max()) if len(known) else 0.0
