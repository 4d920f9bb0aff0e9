"""What is known of the loss of one run: its curve, its level at the start, and what kind of loss it is."""

from __future__ import annotations

import math
from weakref import WeakKeyDictionary

import numpy as np

from tb_netdebug.checks.curve import STEPS_KEPT, Curve
from tb_netdebug.checks.evidence.loss_calls import LossCallTable
from tb_netdebug.checks.evidence.loss_shape import Doubles, noise
from tb_netdebug.checks.history import History
from tb_netdebug.checks.layers import LayerTable
from tb_netdebug.core.records.facts import ElsewhereFact, OptimizerFact
from tb_netdebug.core.records.scalar_names import LOSS

# The first values of a run, before it has learned anything.
FIRST_VALUES = 8
# After this many steps, rules over the whole curve are asked every fourth time only: it changes slowly then.
EARLY_STEPS = 1024
TURNS = 4
STEPS_BETWEEN = 16


class LossCurve:
    """The loss of a run, shared by its rules: it is updated once for each step at which they are asked.

    `values` are the last finite losses with their `steps`, `first` the very first ones and `start` their
    level; `best` is the lowest mean of 8 in a row.
    """

    def __init__(self) -> None:
        self.calls = LossCallTable()
        self.first: list[float] = []
        self.first_step = -1
        self.start = math.nan
        self.best = math.inf
        self.has_been_negative = False
        self._rivals = False
        self._judged_step = -1
        self._layers: tuple[LayerTable | None, int] = None, 0
        self._count = 0
        self._used = 0
        # Room for eight times as many, so that the kept ones rarely have to be moved to the front.
        self._kept = np.empty((2, 8 * STEPS_KEPT))

    @property
    def steps(self) -> Doubles:
        return self._kept[0, max(self._used - STEPS_KEPT, 0) : self._used]

    @property
    def values(self) -> Doubles:
        return self._kept[1, max(self._used - STEPS_KEPT, 0) : self._used]

    @property
    def chance(self) -> float | None:
        """The loss of the best constant answer; None if it is not known."""
        return self.calls.chance

    @property
    def is_contest(self) -> bool:
        """Whether there are several models or optimizers, as in GANs: their losses need not fall."""
        return self._rivals

    @property
    def may_rise(self) -> bool:
        """Whether the height of the loss says little.

        That is the case for losses of policies, games, contrasts and energies, and for errors from moving
        targets.
        """
        is_free = self.has_been_negative and not self.calls.are_the_loss
        return self._rivals or self.calls.targets_move or self.calls.is_contrast or is_free

    @property
    def left(self) -> float:
        """The newest losses as a share of what guessing gets; if that is not known, of the start.

        In the latter case it is no less than the share that the loss functions in it have of theirs. It is
        NaN if the height of the loss says little.
        """
        if not len(self.values):
            return math.nan
        now = float(self.values[-FIRST_VALUES:].mean())
        if self.chance is not None:
            return now / self.chance
        if self.may_rise or not self.start > 0:
            return math.nan
        level = self.calls.level
        return max(now / self.start, 0.0 if math.isnan(level) else level)

    def chance_beside(self, newest: Doubles) -> float | None:
        """Return what guessing would get in the steps of these newest losses.

        It is derived from the samples among these steps, where that leaves less doubt than the mean of all
        samples.
        """
        if self.chance is None or not len(newest):
            return None
        share, error = self.calls.share(int(self.steps[-len(newest)]) - 1)
        doubt = math.hypot(noise(newest) / len(newest) ** 0.5, self.calls.error_of_chance)
        return float(newest.mean()) / share if share > 0 and error < doubt / self.chance else self.chance

    def after(self, step: int) -> Doubles:
        return self.values[np.searchsorted(self.steps, step, side="right") :]

    def look(self, history: History) -> None:
        if history.step == self._judged_step:
            return
        new = [record for record in history.recent if record.step > self._judged_step]
        self._judged_step = history.step
        self._rivals = (
            len(history.known_facts(OptimizerFact)) > 1
            or self._models(history.layers) > 1
            or history.fact(ElsewhereFact) is not None  # the loss depends on what another optimizer trains
        )
        curve = history.curve(LOSS)
        if curve is None:
            return
        losses = [(record.step, record.scalars[LOSS]) for record in new if LOSS in record.scalars]
        self._count += len(losses)
        if self._count != curve.count:  # some values came while no rule asked
            self._count, self._used = curve.count, 0
            losses = list(zip(curve.steps, curve.values, strict=True))
        self._append([(step, loss) for step, loss in losses if math.isfinite(loss)])
        self._follow(curve)
        self.calls.compare(history, new)

    def _append(self, losses: list[tuple[int, float]]) -> None:
        if self._used + len(losses) > self._kept.shape[1]:
            kept = self._kept[:, self._used - STEPS_KEPT : self._used].copy()
            self._kept[:, :STEPS_KEPT] = kept
            self._used = STEPS_KEPT
        if losses:
            self._kept[:, self._used : self._used + len(losses)] = np.array(losses, float).T
            self._used += len(losses)

    def _follow(self, curve: Curve) -> None:
        values = self.values
        if len(self.first) < FIRST_VALUES and len(values):
            if not self.first:
                self.first_step = int(self.steps[0])
            self.first = [float(value) for value in values[:FIRST_VALUES]]
            place = len(self.first) // 4  # some of the first values may be far off
            self.start = float(np.mean(sorted(self.first)[place : len(self.first) - place]))
        self.has_been_negative |= curve.lowest < 0
        # Of the newest 32 values, as many whole groups of 8 as there are.
        recent = values[-(len(values[-32:]) // FIRST_VALUES * FIRST_VALUES) :]
        if len(values) >= FIRST_VALUES:
            self.best = min(self.best, float(recent.reshape(-1, FIRST_VALUES).mean(axis=1).min()))

    def _models(self, layers: LayerTable) -> int:
        if self._layers[0] is not layers:
            self._layers = layers, sum(node.parent is None for node in layers.nodes.values())
        return self._layers[1]


# Shared by the rules of a run, and gone with its history.
_COURSES: WeakKeyDictionary[History, LossCurve] = WeakKeyDictionary()


def course(history: History) -> LossCurve:
    """Return the loss course of this run, up to date."""
    known = _COURSES.get(history)
    if known is None:
        known = _COURSES[history] = LossCurve()
    known.look(history)
    return known


def is_turn(history: History) -> bool:
    """Return whether rules over the whole curve are due: always at the beginning and at the end of a run."""
    is_regular = len(history.recent) == STEPS_BETWEEN
    return not is_regular or history.steps < EARLY_STEPS or history.steps // STEPS_BETWEEN % TURNS == 0
