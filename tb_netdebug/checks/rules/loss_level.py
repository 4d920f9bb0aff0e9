"""Rules for a loss that stays: at the level of guessing, or where it began."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.loss_course import FIRST_VALUES, LossCurve, course, is_turn
from tb_netdebug.checks.evidence.loss_shape import (
    Doubles,
    error_of_mean,
    is_falling,
    noise,
    variation,
    without_spikes,
)
from tb_netdebug.checks.evidence.loss_term import outweighed
from tb_netdebug.checks.evidence.stillness import standstill
from tb_netdebug.checks.evidence.warm_up import still_warming_up
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.loss_words import over
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import LOSSES


@dataclass(frozen=True, slots=True)
class ChanceLimits:
    ignored: int = 12  # the first steps, in which anything may happen
    window: int = 40  # steps that are judged, or half of all steps, whichever is more
    above: float = 100.0  # times guessing: a higher loss is diverging
    # standard deviation over mean: above guessing, a loss that varies more diverges, too
    variation: float = 0.4
    below: float = 0.03  # a loss this far below guessing has learned something
    luck: float = 2.0  # standard deviations by which the best stretch may be lower by chance
    fall: float = 0.005  # a loss that still falls by this share within the window has learned something, too
    rest: float = 0.15  # of a loss function: with no more than this beside it, it is nearly all of the loss
    patience: int = 96  # steps to wait if nothing else shows that it stands still: plateaus end
    error_steps: int = 400  # by then, the plateau of any healthy run was over
    recovered: int = 32  # steps in which it has learned something after all


class LossAtChance(Rule):
    """The loss stays at that of the best constant answer: nothing of the inputs is used."""

    slug = "loss-at-chance"
    when = When.STEPS
    needs = ("loss", "loss-call")
    limits = ChanceLimits()

    def __init__(self) -> None:
        self._is_said = False

    def update(self, history: History) -> Sign | None:
        seen = course(history)
        if not is_turn(history) or seen.may_rise:
            return None
        sign = self._of_loss(history, seen) or self._of_part(history, seen) or self._recovered(seen)
        self._is_said = not sign.is_over if sign is not None else self._is_said
        return sign

    def _recovered(self, seen: LossCurve) -> Sign | None:
        """Return the sign that takes the finding back.

        The loss, or in a sum its loss function, is clearly below guessing.
        """
        newest = seen.values[-self.limits.recovered :]
        chance = seen.chance_beside(newest)
        if not self._is_said or len(newest) < self.limits.recovered:
            return None
        share = float(newest.mean()) / chance if chance else math.inf
        if not seen.calls.are_the_loss and not math.isnan(seen.calls.level):
            share = seen.calls.level
        if share >= 1.0 - 3.0 * self.limits.below:
            return None
        return over(int(seen.steps[-1]), f"the loss has come down to {percent(share)} of that of guessing")

    def _of_part(self, history: History, seen: LossCurve) -> Sign | None:
        """Judge what is left in the end of a loss that is a sum."""
        limits = self.limits
        if history.step - seen.first_step + 1 < limits.patience or still_warming_up(history):
            return None
        calls = history.known_facts(LossCallFact)
        return outweighed(seen, calls, below=limits.below, rest=limits.rest)

    def _of_loss(self, history: History, seen: LossCurve) -> Sign | None:
        limits = self.limits
        if seen.chance is None or seen.chance <= 0:
            return None
        values = seen.after(seen.first_step + limits.ignored)
        values = without_spikes(values[-max(limits.window, len(values) // 2) :])
        if len(values) < limits.window or not self._is_at_chance(seen, values):
            return None
        lasted = history.step - seen.first_step + 1
        stands, why = standstill(history)
        if still_warming_up(history) and lasted < limits.error_steps:
            return None
        if lasted < limits.patience and not stands:
            return None
        return self._sign(history, seen, values, lasted, why)

    def _is_at_chance(self, seen: LossCurve, values: Doubles) -> bool:
        chance, limits = seen.chance_beside(values) or 0.0, self.limits
        if seen.calls.has_learned(limits.below):
            return False  # the other parts of the loss make the sum as high as guessing
        # The best of many means of 8 is low by chance alone, the more so in regressions.
        doubt = limits.luck * noise(values) / FIRST_VALUES**0.5
        if seen.best < (1.0 - 3.0 * limits.below) * chance - doubt:
            return False  # it had learned something, so this is another problem
        mean = float(values.mean())
        is_near = (1.0 - limits.below) * chance <= mean <= limits.above * chance
        is_steady = mean <= 1.5 * chance or variation(values) <= limits.variation
        return is_near and is_steady and not is_falling(values, share=limits.fall)

    def _sign(self, history: History, seen: LossCurve, values: Doubles, lasted: int, why: str) -> Sign | None:
        chance = seen.chance_beside(values) or 0.0
        accuracy, top = _means(history, "accuracy"), _means(history, "top_share")
        if accuracy is not None and top is not None and accuracy > top + 0.1:
            return None
        evidence = {
            "loss": Evidence(float(values.mean()), (1.0 - self.limits.below) * chance),
            "loss of the best constant answer": Evidence(chance),
        }
        if accuracy is not None and top is not None:
            evidence["share of right answers"] = Evidence(accuracy)
            evidence["share of the most frequent class"] = Evidence(top)
        is_error = lasted >= self.limits.error_steps
        return Sign(
            Severity.ERROR if is_error else Severity.WARNING,
            f"After {lasted} steps the loss is {number(values.mean(), 4)}. The best constant answer, which "
            f"ignores the inputs, would get {number(chance, 4)} (less than {percent(self.limits.below)} "
            "below that counts as guessing). The network has not learned how targets depend on "
            f"inputs{why}.",
            "First see whether it can memorize 16 examples: train on one batch only; the loss must go to "
            "about 0. If it does not, look at the learning rate (try 10 times more and less) and at the "
            "path from inputs to loss. If it does, check that inputs and labels belong together: print a "
            "few pairs as they enter the loss.",
            evidence,
            since=seen.first_step,
            sureness=0.9 if is_error or why else 0.75,
        )


def _means(history: History, what: str) -> float | None:
    """Return the mean of the loss calls' last measurements of a quantity, or None."""
    found = [
        curve.tail(8).mean()
        for curve in history.curves(LOSSES)
        if curve.name.endswith(f"/{what}") and curve.count
    ]
    return float(np.mean(found)) if found else None


@dataclass(frozen=True, slots=True)
class LearningLimits:
    steps: int = 64  # before that, nearly any loss may stand still
    window: int = 24  # steps at the end that are compared with the first
    fall: float = 0.02  # a smaller fall below the start, as a share of it, is no progress
    runaway: float = 3.0  # times the start: beyond, it diverges, which says more
    fall_of_noise: float = 0.1  # the same where nothing is seen to move
    learned: float = 0.03  # a loss this share below guessing has learned something, as in fine-tuning
    patience: int = 128  # steps, where it is not known what guessing would get
    variation: float = 0.4  # standard deviation over mean: a loss that varies more is not judged by its mean
    error_steps: int = 400
    recovered: float = 0.1  # share of the start by which the window's mean has fallen after all


class NotLearning(Rule):
    """The loss is as high as at the start."""

    slug = "not-learning"
    when = When.STEPS
    needs = ("loss",)
    limits = LearningLimits()

    def __init__(self) -> None:
        self._is_said = False

    def update(self, history: History) -> Sign | None:
        sign = self._stuck(history)
        if sign is None and self._is_said and is_turn(history):
            sign = self._recovered(course(history))
        self._is_said = not sign.is_over if sign is not None else self._is_said
        return sign

    def _recovered(self, seen: LossCurve) -> Sign | None:
        newest = seen.values[-self.limits.window :]
        share = float(newest.mean()) / seen.start
        has_fallen = share < 1.0 - self.limits.recovered - 3.0 * error_of_mean(newest) / seen.start
        if not (has_fallen or seen.calls.has_fallen_to(1.0 - self.limits.recovered)):
            return None
        share = share if has_fallen else seen.calls.remains
        return over(int(seen.steps[-1]), f"the loss has come down to {percent(share)} of its start")

    def _stuck(self, history: History) -> Sign | None:
        seen, limits = course(history), self.limits
        lasted = history.step - seen.first_step + 1
        if (
            not is_turn(history)
            or lasted < limits.steps
            or len(seen.values) < limits.window + 8
            or seen.may_rise
            or seen.start <= 0
            or seen.calls.has_fallen_to(1.0 - limits.recovered)
        ):
            return None
        recent = without_spikes(seen.values[-max(limits.window, min(len(seen.values), lasted) // 3) :])
        if not self._stays(seen, recent, True) or still_warming_up(history):
            return None
        stands, why = standstill(history)
        if not stands and not self._stays(seen, recent, False):
            return None
        severity = self._severity(seen, recent, lasted, stands)
        return None if severity is None else self._sign(seen, recent, lasted, severity, why)

    def _stays(self, seen: LossCurve, recent: Doubles, stands: bool) -> bool:
        """Return whether the loss has not fallen.

        Where nothing moves (`stands`), what looks like a fall is noise.
        """
        limits, mean = self.limits, float(recent.mean())
        if mean > limits.runaway * max(seen.start, seen.chance or 0.0):
            return False
        chance = seen.chance_beside(recent)
        if seen.calls.has_learned(limits.learned):
            return False
        if chance is not None and mean < (1.0 - limits.learned) * chance:
            return False
        first = noise(np.array(seen.first)) / len(seen.first) ** 0.5
        doubt = 3.0 * float(np.hypot(error_of_mean(recent), first))
        fall = limits.fall_of_noise if stands else limits.fall
        # What stays at guessing has a rule of its own, so where guessing is known, this rule may be in doubt.
        least = doubt if seen.chance is None else doubt / 3.0
        is_lower = mean < seen.start * (1.0 - fall) and mean < seen.start - least
        was_lower = seen.best < seen.start * (1.0 - 4 * fall) - doubt
        return not is_lower and not was_lower and (stands or not is_falling(recent, share=limits.fall / 2))

    def _severity(self, seen: LossCurve, recent: Doubles, lasted: int, stands: bool) -> Severity | None:
        limits = self.limits
        if not stands and variation(recent) > limits.variation:
            return Severity.INFO if lasted >= limits.patience else None
        if lasted >= limits.error_steps and (seen.chance is not None or stands):
            return Severity.ERROR
        return Severity.WARNING if stands or lasted >= limits.patience else None

    def _sign(self, seen: LossCurve, recent: Doubles, lasted: int, severity: Severity, why: str) -> Sign:
        mean = float(recent.mean())
        return Sign(
            severity,
            f"After {lasted} steps the loss is {number(mean, 4)}. It began at {number(seen.start, 4)}; a "
            f"fall by less than {percent(self.limits.fall)}, or no larger than chance explains, does not "
            f"count{why}.",
            f"Check in this order: {Idiom.IS_OPTIMIZED}; is the learning rate far too small or too large "
            "(try 10 times more and 10 times less); can the network memorize a single batch?",
            {
                "loss": Evidence(mean, seen.start * (1.0 - self.limits.fall)),
                "loss at the start": Evidence(seen.start),
            },
            since=seen.first_step,
            sureness=0.85 if seen.chance is not None or why else 0.7,
        )
