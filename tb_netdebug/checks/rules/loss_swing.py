"""Rules for a loss that jumps up for a moment, or swings up and down."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.loss_course import LossCurve, course, is_turn
from tb_netdebug.checks.evidence.loss_curves import main_curves
from tb_netdebug.checks.evidence.loss_shape import (
    Doubles,
    alternation,
    is_falling,
    middle,
    period,
    variation,
    without_spikes,
)
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.scalar_names import BATCH_ID, LOADER_BATCHES, LOSS

# This many batches show how much batches differ.
BATCHES = 16


@dataclass(frozen=True, slots=True)
class SpikeLimits:
    before: int = 24  # steps before the spike that must be known
    above_highest: float = 3.0  # times the highest of the last 48 losses, or more if they vary much
    # times the start: worse than the untrained network; jumps near zero are harmless
    above_start: float = 1.5
    warn_above_start: float = 3.0  # times the start: from this size on, one spike is enough
    repeated: int = 2  # with this many spikes, smaller ones count as well
    recovery: int = 12  # steps in which it must come down again; else it diverges


class LossSpike(Rule):
    """Single steps have a loss far above all before them, after which it is as before."""

    slug = "loss-spike"
    when = When.STEPS
    needs = ("loss",)
    limits = SpikeLimits()

    def __init__(self) -> None:
        self._calm: deque[float] = deque(maxlen=48)
        self._open: tuple[int, float, float] | None = None
        self._spikes = 0
        self._highest = 0.0
        self._since = -1

    def update(self, history: History) -> Sign | None:
        seen = course(history)
        if not seen.start > 0 or seen.may_rise:
            return None
        before = self._spikes
        for record in history.recent:
            loss = record.scalars.get(LOSS)
            if loss is not None and math.isfinite(loss):
                self._follow(record.step, loss, seen.start)
        return self._sign(seen) if self._spikes > before else None

    def _follow(self, step: int, loss: float, start: float) -> None:
        if self._open is not None:
            began, height, threshold = self._open
            if loss < threshold:
                self._open = None
                self._spikes += 1
                self._highest = max(self._highest, height)
                self._since = began if self._since < 0 else self._since
            elif step - began > self.limits.recovery:
                self._open = None
                # It has not come down, so this is a new level, of which nothing is known yet.
                self._calm.clear()
            else:
                self._open = began, max(height, loss), threshold
            return
        if len(self._calm) >= self.limits.before:
            highest = max(self._calm)
            if loss > max(self.limits.above_start * start, highest):
                # A floor, so that losses that are mostly 0 make no infinite factor.
                usual = max(middle(np.array(self._calm)), 1e-9 * highest)
                # Where losses vary by themselves, a spike is as far above the highest as that is above the
                # middle.
                factor = max(self.limits.above_highest, highest / usual)
                if loss > factor * highest:
                    # A loss that comes down to the level before is a spike; one that had to be learned down
                    # again was new data.
                    self._open = step, loss, highest
                    return
        self._calm.append(loss)

    def _sign(self, seen: LossCurve) -> Sign:
        limits, ratio = self.limits, self._highest / seen.start
        is_bad = ratio >= limits.warn_above_start or self._spikes >= limits.repeated
        times = "Once" if self._spikes == 1 else f"{self._spikes} times"
        return Sign(
            Severity.WARNING if is_bad else Severity.INFO,
            f"{times} the loss jumped far above all earlier values and came down again, up to "
            f"{number(self._highest, 4)}: {number(ratio)} times that of the untrained network (more than "
            f"{number(limits.above_start)} times, and {number(limits.above_highest)} times the highest of "
            "the steps before, is a spike).",
            "Look at the batch of that step: wrong values, an outlier, a wrong unit or label. If the "
            f"batches are fine, clip gradients: {Idiom.CLIP_BEFORE_STEP}, or lower the learning rate.",
            {
                "highest loss": Evidence(self._highest, limits.above_start * seen.start),
                "spikes": Evidence(float(self._spikes), float(limits.repeated)),
            },
            since=self._since,
            sureness=0.85,
        )


@dataclass(frozen=True, slots=True)
class OscillatingLimits:
    window: int = 48  # steps that are judged
    ignored: int = 8  # the first ones
    amplitude: float = 0.25  # standard deviation relative to the mean
    full_batch_amplitude: float = 0.02  # the same for full batches, which make no noise
    runaway: float = 10.0  # times the start: beyond, it diverges, which says more
    repeats: float = 0.5  # correlation after one period; half a period later it is as negative
    level: float = 0.4  # share of the start: below it, the loss has learned, and small swings do not matter
    erratic: float = 0.3  # standard deviation relative to the mean, for losses without a period …
    journey: float = 3.0  # way up and down, in distances from lowest to highest: a jump and its end are two
    above_chance: float = 1.3  # … that are this many times what guessing would get …
    batches_differ: float = 0.5  # … unless guessing itself varies by this share of the loss's variation
    alternation: float = 0.25  # negative correlation of neighbours, over up to 128 steps; noise has none …
    errors: float = 3.0  # … this many times what noise has by chance
    noisy: float = 0.1  # standard deviation relative to the mean, from which neighbours are compared
    least_steps: int = 64  # … over this many steps; only for losses …
    worse: float = 1.05  # … this many times what guessing would get


class LossOscillating(Rule):
    """The loss swings up and down and gets nowhere."""

    slug = "loss-oscillating"
    when = When.STEPS
    needs = ("loss",)
    limits = OscillatingLimits()

    def update(self, history: History) -> Sign | None:
        seen, limits = course(history), self.limits
        recent = without_spikes(seen.values[-limits.window :])
        if not is_turn(history) or len(recent) < limits.window or seen.may_rise or not seen.start > 0:
            return None
        if (
            len(recent) == len(seen.values)
            and history.step - seen.first_step < limits.window + limits.ignored
        ):
            return None
        mean, swing = float(recent.mean()), variation(recent)
        if middle(recent) > limits.runaway * seen.start:
            return None
        least = limits.full_batch_amplitude if always_the_same(history) else limits.amplitude
        if mean < limits.level * seen.start or swing < min(least, limits.erratic, limits.noisy):
            return None
        if is_falling(recent, share=0.15) and is_falling(without_spikes(seen.values), share=0.15):
            return None
        turns = period(recent, least=limits.repeats) if swing >= least else None
        if turns is None and self._alternates(seen):
            turns = 2
        if turns is None and not self._is_erratic(history, seen, recent):
            return None
        return self._sign(history, seen, recent, turns, least)

    def _alternates(self, seen: LossCurve) -> bool:
        """Return whether steps go from one side of a valley to the other, within the noise of batches."""
        values, limits = without_spikes(seen.values[self.limits.ignored :][-128:]), self.limits
        if seen.chance is None or len(values) < limits.least_steps:
            return False
        is_worse = float(values.mean()) > limits.worse * seen.chance
        chance = limits.errors / math.sqrt(len(values))  # what noise reaches now and then
        return is_worse and alternation(values) < -max(limits.alternation, chance)

    def _is_erratic(self, history: History, seen: LossCurve, recent: Doubles) -> bool:
        limits, mean, swing = self.limits, float(recent.mean()), variation(recent)
        if seen.chance is None or mean <= limits.above_chance * seen.chance or swing < limits.erratic:
            return False
        if journey(recent) < limits.journey:
            return False
        return not batches_differ(history, swing, share=limits.batches_differ)

    def _sign(
        self, history: History, seen: LossCurve, recent: Doubles, turns: int | None, least: float
    ) -> Sign:
        low, high = (float(value) for value in np.quantile(recent, (0.1, 0.9)))
        batches = history.curve(LOADER_BATCHES)
        is_epoch = turns is not None and batches is not None and abs(turns - batches.last) <= 0.1 * turns
        how = f"every {turns} steps" if turns else "without a pattern"
        guess = "" if seen.chance is None else f"; a constant answer would get {number(seen.chance, 4)}"
        return Sign(
            Severity.INFO if is_epoch else Severity.WARNING,
            f"For {len(recent)} steps the loss has gone up and down between {number(low, 4)} and "
            f"{number(high, 4)}, {how}, and does not fall (it began at {number(seen.start, 4)}{guess}; a "
            f"spread of more than {percent(least)} of the mean is too much).",
            "That is one pass over the data: some batches are harder than others. Use `shuffle=True`."
            if is_epoch
            else "Lower the learning rate (10 times to begin with) or the momentum: the steps overshoot "
            "the minimum. If the rate is fine, see whether the batches are ordered, such as one class "
            "after the other: use `shuffle=True`.",
            {
                "spread of the loss beside its mean": Evidence(variation(recent), least),
                "steps from high to high": Evidence(float(turns) if turns else "irregular"),
                "mean loss": Evidence(float(recent.mean()), self.limits.level * seen.start),
            },
            since=int(seen.steps[-len(recent)]),
            sureness=0.8,
        )


def journey(values: Doubles) -> float:
    """Return the total way from step to step, relative to the distance between the extremes."""
    distance = float(np.ptp(values))
    return float(np.abs(np.diff(values)).sum()) / distance if distance > 0 else 0.0


def batches_differ(history: History, swing: float, *, share: float) -> bool:
    """Return whether batches differ that much in what there is to learn, as where rewards are rare."""
    _, baseline = main_curves(history)
    values = np.array([] if baseline is None else baseline.tail(BATCHES))
    return len(values) >= BATCHES // 2 and variation(values) >= share * swing


def always_the_same(history: History) -> bool:
    """Return whether every batch is the whole dataset."""
    batches = history.curve(BATCH_ID)
    return batches is not None and batches.count >= 8 and batches.lowest == batches.highest
