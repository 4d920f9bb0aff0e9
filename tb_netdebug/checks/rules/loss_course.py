"""What is known of the loss of one run: its curve, what guessing would get, and what kind of loss it is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ...records.step import StepRecord
from ..history import History
from .loss_shape import Doubles

# A training's first values, before it has learned anything.
FIRST_VALUES = 8
# The recorded loss is that of the loss calls when their ratio is the same to within this.
SAME = 2e-3
LEAST_COMPARED = 4
ALIKE = 0.3
LEAST_ROWS = 8

# Below zero, such a loss was fed with something that it is not made for.
NEVER_NEGATIVE = frozenset({
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "hinge_embedding_loss", "margin_ranking_loss",
    "multi_margin_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "kl_div",
})  # fmt: skip


class Course:
    """The rules of a run share it: it is worked out once for each step at which they are asked.

    `values` are the last finite losses with their `steps`; `first` the very first ones. `chance` is the loss
    of the best constant answer in units of `loss`, None unless the loss is known to be that of the loss calls
    of torch.nn.functional; `measured` are the values of the calls themselves, as (step, value, chance).
    """

    def __init__(self) -> None:
        self.values: Doubles = np.zeros(0)
        self.steps: Doubles = np.zeros(0)
        self.first: list[float] = []
        self.first_step = -1
        self.best = math.inf
        self.best_step = -1
        self.chance: float | None = None
        self.measured: list[tuple[int, float, float]] = []
        self.has_been_negative = False
        self._judged_step = -1
        self._ratios: list[float] = []
        self._rivals = False
        self._moves = False

    @property
    def start(self) -> float:
        """The level of the loss before training; the middle, as one of the first may be far off."""
        return float(np.median(self.first)) if self.first else math.nan

    @property
    def is_of_calls(self) -> bool:
        """Whether the recorded loss is what the loss functions returned, up to a constant factor."""
        ratios = self._ratios
        return len(ratios) >= LEAST_COMPARED and max(ratios) - min(ratios) <= SAME * abs(max(ratios, key=abs))

    @property
    def factor(self) -> float:
        """Of the recorded loss to that of the calls; NaN when they have little to do with each other.

        Where a step has several batches only the first is measured: then it is right in the mean."""
        if self.is_of_calls:
            return float(np.median(self._ratios))
        if len(self._ratios) < FIRST_VALUES:
            return math.nan
        low, middle, high = np.quantile(self._ratios, (0.1, 0.5, 0.9))
        return float(middle) if high - low < ALIKE * abs(middle) else math.nan

    @property
    def is_contest(self) -> bool:
        """Several models or optimizers, as in GANs: their losses need not fall."""
        return self._rivals

    @property
    def may_rise(self) -> bool:
        """Losses of policies, games and energies, and errors from targets that move (as those of values
        that are being learned): their height says little."""
        return self._rivals or self._moves or (self.has_been_negative and not self.is_of_calls)

    def after(self, step: int) -> Doubles:
        return self.values[np.searchsorted(self.steps, step, side="right") :]

    def mean_of_window(self, size: int) -> Doubles:
        """Means of so many values in a row, the newest complete, oldest first."""
        whole = len(self.values) // size * size
        means: Doubles = self.values[len(self.values) - whole :].reshape(-1, size).mean(axis=1)
        return means

    def look(self, history: History) -> None:
        if history.step == self._judged_step:
            return
        new = [record for record in history.recent if record.step > self._judged_step]
        self._judged_step = history.step
        self._rivals = len(history.known_facts.get("optimizer", ())) > 1 or _models(history) > 1
        curve = history.curve("loss")
        if curve is None:
            return
        steps, values = np.array(curve.steps, float), np.array(curve.values, float)
        finite = np.isfinite(values)
        self.steps, self.values = steps[finite], values[finite]
        if len(self.first) < FIRST_VALUES and len(self.values):
            if not self.first:
                self.first_step = int(self.steps[0])
            self.first = [float(value) for value in self.values[:FIRST_VALUES]]
        self.has_been_negative |= curve.lowest < 0
        self._moves = any(map(partial(moving_targets, history), history.known_facts.get("loss-call", {})))
        self._follow_best()
        self._compare(history, new)

    def _follow_best(self) -> None:
        means = self.mean_of_window(FIRST_VALUES)
        if len(means) and means.min() < self.best:
            self.best = float(means.min())
            place = len(self.values) - (len(means) - int(means.argmin())) * FIRST_VALUES
            self.best_step = int(self.steps[place + FIRST_VALUES - 1])

    def _compare(self, history: History, records: Iterable[StepRecord]) -> None:
        calls = history.known_facts.get("loss-call", {})
        if not calls:
            return
        for record in records:
            value, chance = self._of_calls(calls, record)
            if value is None:
                continue
            if chance is not None:
                self.measured.append((record.step, value, chance))
            loss = record.scalars.get("loss")
            if loss is not None and value and math.isfinite(loss) and math.isfinite(value):
                self._ratios.append(loss / value)
        del self._ratios[:-32], self.measured[:-64]
        known = [chance for _, _, chance in self.measured[-32:]]
        factor = abs(self.factor)
        self.chance = float(np.mean(known)) * factor if known and math.isfinite(factor) else None

    @staticmethod
    def _of_calls(calls: dict[Any, dict[str, Any]], record: StepRecord) -> tuple[float | None, float | None]:
        """The sum of the loss calls of a step, and of what constant answers would get; None: not measured."""
        scalars = record.scalars
        value: float | None = None
        chance: float | None = 0.0
        for key, call in calls.items():
            one = scalars.get(f"probe/loss/{key}/value")
            if one is None:
                continue
            value = one if value is None else value + one
            least = chance_of(call, key, scalars)
            chance = None if least is None or chance is None else chance + least
        return value, chance


def chance_of(call: dict[str, Any], key: Any, scalars: dict[str, float]) -> float | None:
    """What the best constant answer would get on such data; that for this very batch is less, the fewer
    rows it has. None when they are too few to tell."""
    baseline = scalars.get(f"probe/loss/{key}/baseline")
    if baseline is None or not math.isfinite(baseline):
        return None
    rows = max(math.prod(call.get("target_shape") or (1,)), 1)
    uniform, classes = scalars.get(f"probe/loss/{key}/uniform"), scalars.get(f"probe/loss/{key}/classes")
    if uniform is not None:
        if rows < max(LEAST_ROWS, 2.0 * (classes or 2.0)):
            return None
        missing = max((classes or 2.0) - 1.0, 0.0) / 2.0  # Miller and Madow, of the entropy times the rows
        if call.get("reduction") == "sum":
            return baseline + missing
        return min(baseline + missing / rows, max(uniform, baseline))
    rows = max((call.get("target_shape") or (1,))[0], 1)
    return baseline * rows / (rows - 1) if rows >= LEAST_ROWS else None


def moving_targets(history: History, key: Any) -> bool:
    """Whether the mean of numbers to be met has gone further than they are wide."""
    mean, std = (history.curve(f"probe/loss/{key}/target_{name}") for name in ("mean", "std"))
    if mean is None or std is None or mean.count < FIRST_VALUES:
        return False
    if history.curve(f"probe/loss/{key}/uniform") is not None:
        return False
    means, widths = mean.tail(64), std.tail(64)
    apart = abs(float(means[: len(means) // 4].mean() - means[-len(means) // 4 :].mean()))
    return apart > float(widths.mean())


_COURSES: WeakKeyDictionary[History, Course] = WeakKeyDictionary()


def course(history: History) -> Course:
    """The one of this run, up to date."""
    known = _COURSES.get(history)
    if known is None:
        known = _COURSES[history] = Course()
    known.look(history)
    return known


def _models(history: History) -> int:
    return sum(node.parent is None for node in history.layers.nodes.values())


def still_warming_up(history: History) -> bool:
    """Whether a learning rate has been rising until now."""
    for curve in history.curves("lr/"):
        values = list(curve.values)[-16:]
        if len(values) > 1 and values[-1] > values[0] and values[-1] >= curve.highest:
            return True
    return False
