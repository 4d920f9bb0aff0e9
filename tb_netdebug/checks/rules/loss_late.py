"""Rules for the late part of a run: an evaluation loss that rises again, and a loss that stops falling."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tb_netdebug.checks.curve import Curve
from tb_netdebug.checks.evaluation import is_evaluation
from tb_netdebug.checks.evidence.loss_course import LossCurve, course, is_turn
from tb_netdebug.checks.evidence.loss_shape import Doubles, error_of_mean, is_falling, noise
from tb_netdebug.checks.evidence.stillness import LEAST_UPDATE, update_ratio
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.scalar_names import OWN, RATES

# Asked for every scalar of a run, again and again.
is_of_evaluation = lru_cache(maxsize=8192)(is_evaluation)


@dataclass(frozen=True, slots=True)
class OverfittingLimits:
    rise: float = 0.10  # above the lowest evaluation; 10 % is also the published value
    gap: float = 0.10  # above the training loss
    evaluations: int = 3  # in a row, after the lowest one
    groups: int = 12  # evaluations in each step are noisy, so this many means are judged instead
    error_rise: float = 1.0  # twice the lowest: what was learned about other data is gone


class Overfitting(Rule):
    """The evaluation loss rises again while the training loss goes on falling."""

    slug = "overfitting"
    when = When.STEPS
    needs = ("loss", "evaluation-loss")
    limits = OverfittingLimits()

    def update(self, history: History) -> Sign | None:
        if not is_turn(history):
            return None
        curves = [curve for curve in history.curves() if curve.count > 3 and is_of_evaluation(curve.name)]
        if not curves:
            return None
        seen = course(history)
        if seen.may_rise:
            return None
        signs = [self._judge(curve, seen) for curve in curves]
        return max((each for each in signs if each), key=lambda each: each.severity, default=None)

    def _judge(self, curve: Curve, seen: LossCurve) -> Sign | None:
        limits = self.limits
        steps, values = self._grouped(curve)
        if len(values) <= limits.evaluations:
            return None
        place = int(values.argmin())
        best, later = float(values[place]), values[place + 1 :]
        if best <= 0 or len(later) < limits.evaluations:
            return None
        last = later[-limits.evaluations :]
        # The evaluations up to the lowest show how noisy they are, if there are enough of them.
        doubt = 3.0 * noise(values[: place + 1]) if place > 3 else 0.0
        level = float(last.min())
        # Too small a rise, one within the noise, or one that is coming down again.
        if level < best * (1.0 + limits.rise) or level < best + doubt or last[-1] < np.median(later) * 0.98:
            return None
        then, now = self._training(seen, steps[place]), self._training(seen, steps[-1])
        if then is None or now is None or now >= then or level < now * (1.0 + limits.gap):
            return None
        return self._sign(curve.name, best, level, int(steps[place]), (then, now))

    def _grouped(self, curve: Curve) -> tuple[Doubles, Doubles]:
        steps, values = np.array(curve.steps, float), np.array(curve.values, float)
        is_finite = np.isfinite(values)
        steps, values = steps[is_finite], values[is_finite]
        if len(values) <= 2 * self.limits.groups:
            return steps, values
        return means(steps, self.limits.groups), means(values, self.limits.groups)

    @staticmethod
    def _training(seen: LossCurve, step: float) -> float | None:
        """Return the mean of some training losses around a step."""
        place = int(np.searchsorted(seen.steps, step, side="right"))
        near = seen.values[max(place - 8, 0) : place + 1]
        return float(near.mean()) if len(near) else None

    def _sign(self, name: str, best: float, level: float, since: int, training: tuple[float, float]) -> Sign:
        rise = level / best - 1.0
        shown = name.removeprefix(OWN)
        return Sign(
            Severity.ERROR if rise >= self.limits.error_rise else Severity.WARNING,
            f"{shown} was lowest at step {since} ({number(best, 4)}) and has risen by {percent(rise)} or "
            f"more since (more than {percent(self.limits.rise)} is too much), while the loss on the "
            f"training data fell from {number(training[0], 4)} to {number(training[1], 4)}: the network "
            "memorizes its training examples.",
            f"Keep the weights of step {since} (early stopping). To get further: more or augmented data, "
            f"`weight_decay=1e-2`, {Idiom.DROPOUT}, or a smaller network.",
            {
                f"rise of {shown}": Evidence(rise, self.limits.rise),
                f"lowest {shown}": Evidence(best),
                "training loss then": Evidence(training[0]),
                "training loss now": Evidence(training[1]),
            },
            where=(name,),
            since=since,
            sureness=0.9,
        )


@dataclass(frozen=True, slots=True)
class PlateauLimits:
    window: int = 50  # steps that are flat, or half of all steps, whichever is more
    flat: float = 0.01  # a smaller fall within the window does not count
    fallen: float = 0.05  # share of the start by which it fell before: else it has not learned at all
    level: float = 0.25  # share of the start; above it, a plateau is worth reporting
    cut_level: float = 0.1  # the same, where a reason is known
    rate_cut: float = 100.0  # times: how much lower the learning rate is than it was
    before_cut: float = 0.03  # fall in the steps before the cut: it still helped when it was cut


class LossPlateau(Rule):
    """The loss fell, and stops falling although there seems to be some way to go."""

    slug = "loss-plateau"
    when = When.STEPS
    needs = ("loss",)
    limits = PlateauLimits()

    def update(self, history: History) -> Sign | None:
        seen, limits = course(history), self.limits
        if (
            not is_turn(history)
            or len(seen.values) < 2 * limits.window
            or seen.may_rise
            or not seen.start > 0
        ):
            return None
        recent = seen.values[-max(limits.window, min(history.steps, len(seen.values)) // 2) :]
        level = float(recent.mean())
        if not limits.cut_level * seen.start < level < (1.0 - limits.fallen) * seen.start:
            return None
        if is_falling(recent, share=limits.flat):
            return None
        begun = int(seen.steps[-len(recent)])
        why, advice = self._reason(history, seen, begun)
        if not why and level < limits.level * seen.start:
            return None
        return self._sign(seen, level, len(recent), begun, why, advice)

    def _reason(self, history: History, seen: LossCurve, begun: int) -> tuple[str, str]:
        """Return the reason and its advice: the learning rate, if that is certain; else two empty texts."""
        for curve in history.curves(RATES):
            cut = self._cut(curve)
            if cut is not None and cut <= begun + 8 and self._fell_until(seen, cut):
                return (
                    f" The learning rate is {number(curve.last, 1)}, less than "
                    f"{percent(1 / self.limits.rate_cut)} of what it was ({number(curve.highest, 1)}), and "
                    f"at step {cut} the loss was still falling.",
                    "Let the learning rate fall later or less: give the scheduler the number of steps that "
                    "you train for, and check that `scheduler.step()` is called as its settings mean it: "
                    "once a batch or once an epoch.",
                )
        ratio = update_ratio(history)
        if ratio is not None and ratio < LEAST_UPDATE:
            return (
                f" No weight tensor changes by more than {percent(ratio)} of its size in a step.",
                "Raise the learning rate, or see which layers get gradients.",
            )
        return "", ""

    def _cut(self, curve: Curve) -> int | None:
        if not curve.last < curve.highest / self.limits.rate_cut:
            return None
        values = np.array(curve.values)
        below = np.flatnonzero(values >= curve.highest / 10.0)
        return int(curve.steps[min(below[-1] + 1, len(values) - 1)]) if len(below) else None

    def _fell_until(self, seen: LossCurve, cut: int) -> bool:
        place = int(np.searchsorted(seen.steps, cut))
        before = seen.values[max(place - 48, 0) : place]
        if len(before) < 8:
            return False
        first, second = before[: len(before) // 2], before[len(before) // 2 :]
        doubt = 2.0 * float(np.hypot(error_of_mean(first), error_of_mean(second)))
        return bool(first.mean() - second.mean() > max(self.limits.before_cut * float(first.mean()), doubt))

    def _sign(self, seen: LossCurve, level: float, count: int, begun: int, why: str, advice: str) -> Sign:
        limits = self.limits
        return Sign(
            Severity.WARNING if why else Severity.INFO,
            f"For {count} steps the loss has stayed at {number(level, 4)}, {percent(level / seen.start)} of "
            f"the {number(seen.start, 4)} that it began with (a fall by less than {percent(limits.flat)} "
            f"does not count).{why}",
            advice
            or "It may be as low as it gets. To find out, raise the learning rate for a while, or train a "
            "larger network: if neither changes anything, the rest is noise in the data.",
            {
                "loss": Evidence(level, limits.level * seen.start),
                "steps without a fall": Evidence(float(count), float(limits.window)),
            },
            since=begun,
            sureness=0.85 if why else 0.5,
        )


def means(values: Doubles, groups: int) -> Doubles:
    return np.array([part.mean() for part in np.array_split(values, groups)])
