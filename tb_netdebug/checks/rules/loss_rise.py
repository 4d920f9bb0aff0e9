"""The rule for a loss that goes up for good."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.loss_course import LossCurve, course
from tb_netdebug.checks.evidence.loss_shape import Doubles, is_falling, middle
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.loss_words import over
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.scalar_names import LOSS

LOWER_RATE = (
    "Lower the learning rate (10 times to begin with), or let it rise slowly over the first steps, and "
    f"clip gradients: {Idiom.CLIP_BEFORE_STEP}."
)


@dataclass(frozen=True, slots=True)
class DivergingLimits:
    factor: float = 3.0  # times the start; large learning rates that work overshoot, but for fewer steps
    own_factor: float = (
        10.0  # times the start, for losses that no function of torch.nn gave: sums over episodes
    )
    growth: float = 10.0  # times the level of three windows before, likewise
    window: int = 16  # steps in a row
    error_factor: float = 30.0
    blown_up: float = 1e3  # times the start: nothing comes back from there within a few steps
    lost: float = 0.3  # a loss that was down to this share of its start …
    returned: float = 0.85  # … and is back at this share of it, has lost what it had learned …
    lost_window: int = 32  # … when it stays there for so many steps
    recovered: float = 0.7  # of its start: below it, the loss has learned again what was lost
    unknown_factor: float = 100.0  # times the start, for losses that may rise (policies, games)


class DivergingLoss(Rule):
    """The loss climbs above its start and stays there, or climbs until it is not finite."""

    slug = "diverging-loss"
    when = When.STEPS
    needs = ("loss",)
    limits = DivergingLimits()

    def __init__(self) -> None:
        self._is_lost = False  # whether the last report was that what was learned is lost

    def update(self, history: History) -> Sign | None:
        seen, limits = course(history), self.limits
        curve = history.curve(LOSS)
        if curve is None or len(seen.values) < 4 or not seen.start > 0:
            return None
        start = max(seen.start if len(seen.first) >= 8 else seen.first[0], 0.0)
        if seen.chance is not None:
            # Fine-tuning begins low, so being above guessing is what counts. Where rewards are rare, guessing
            # is as bad in some batches, hence `hardest`; but that does not excuse targets that run away as
            # well.
            start = max(start, seen.chance, 0.0 if seen.may_rise else seen.calls.hardest)
        factor = limits.factor if seen.chance is not None else limits.own_factor
        factor = limits.unknown_factor if seen.may_rise else factor
        if not math.isfinite(curve.last) and curve.nonfinite:
            return self._ended(seen, start, factor)
        recent = seen.values[-limits.window :]
        level = middle(recent)
        if len(recent) == limits.window and level > factor * start and self._runs_away(seen, recent, level):
            is_error = level > max(limits.error_factor, factor) * start
            return self._sign(seen, level, start, factor, Severity.ERROR if is_error else Severity.WARNING)
        if float(seen.values[-3:].min()) > max(limits.blown_up, factor) * start:
            return self._sign(seen, float(seen.values[-1]), start, factor, Severity.ERROR)
        return self._lost(seen)

    def _runs_away(self, seen: LossCurve, recent: Doubles, level: float) -> bool:
        if _calms_down(recent):
            return False
        before = seen.values[-4 * self.limits.window : -3 * self.limits.window]
        # Sums over episodes grow with the episodes, but step by step.
        return seen.chance is not None or not len(before) or level > self.limits.growth * float(before.mean())

    def _ended(self, seen: LossCurve, start: float, factor: float) -> Sign | None:
        last = seen.values[-3:]
        if last[-1] < 10.0 * factor * start or not (np.diff(last) > 0).all():
            return None
        return self._sign(
            seen, float(last[-1]), start, factor, Severity.ERROR, end=" and then was no longer finite"
        )

    def _sign(
        self, seen: LossCurve, level: float, start: float, factor: float, severity: Severity, end: str = ""
    ) -> Sign:
        self._is_lost = False
        above = np.flatnonzero(seen.values <= start * factor)
        since = seen.steps[min(above[-1] + 1, len(seen.steps) - 1)] if len(above) else seen.steps[0]
        return Sign(
            severity,
            f"The loss has climbed to {number(level, 4)}{end}, {number(level / start)} times the "
            f"{number(start, 4)} of an untrained network (more than {number(factor)} times is too much): "
            "the training diverges.",
            LOWER_RATE,
            {"loss": Evidence(level, factor * start), "loss at the start": Evidence(start)},
            since=int(since),
            sureness=0.95,
        )

    def _lost(self, seen: LossCurve) -> Sign | None:
        limits = self.limits
        recent = seen.values[-limits.lost_window :]
        if seen.may_rise or seen.best > limits.lost * seen.start or len(recent) < limits.lost_window:
            return None
        level, low = float(recent.mean()), float(np.partition(recent, 3)[3])  # the fourth lowest of 32
        if self._is_lost and level < limits.recovered * seen.start:
            self._is_lost = False
            how = f"the loss has come down to {percent(level / seen.start)} of its start again"
            return over(int(seen.steps[-1]), how)
        if low < limits.returned * seen.start or is_falling(recent, share=0.02):
            return None
        if seen.calls.has_fallen_to(limits.returned):
            return None  # another part of the loss has grown, such as a divergence whose weight is raised
        self._is_lost = True
        return Sign(
            Severity.WARNING,
            f"The loss had come down to {number(seen.best, 4)}, and for {len(recent)} steps it has been "
            f"back at {number(level, 4)}, where it began ({number(seen.start, 4)}): what was learned is "
            "lost.",
            LOWER_RATE,
            {
                "loss": Evidence(level, limits.returned * seen.start),
                "lowest loss": Evidence(seen.best, limits.lost * seen.start),
            },
            since=int(seen.steps[-len(recent)]),
            sureness=0.85,
        )


def _calms_down(recent: Doubles) -> bool:
    """Return whether each half is clearly lower: the overshoot of a learning rate that works."""
    half = len(recent) // 2
    return middle(recent[half:]) < 0.9 * middle(recent[:half])
