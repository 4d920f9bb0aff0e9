"""Rules over the size of the weights: growing without end, or shrinking to nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import ParameterTable, median, parameters_of
from tb_netdebug.checks.evidence.progress import progress_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.tensors import Doubles
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import agree, number, percent
from tb_netdebug.core.records.scalar_names import LOSSES
from tb_netdebug.core.records.step import Kind

LOOKS_KEPT = 8


class Sizes:
    """The size of each matrix when it was first seen."""

    def __init__(self) -> None:
        self.start: Doubles = np.zeros(0)

    def look(self, history: History, known: ParameterTable) -> Doubles | None:
        """Return the sizes now, NaN for all but trainable matrices; None if the step has no weights."""
        if history.weights.now is None:
            return None
        size = known.column(history, Kind.WEIGHT, "rms")
        if len(self.start) < len(size):
            self.start = np.concatenate([self.start, np.full(len(size) - len(self.start), np.nan)])
        self.start = np.where(np.isnan(self.start), size, self.start)
        return np.where(known.matrix & known.trainable, size, np.nan)


class Growth:
    """The growth of a model at the last samples: the median over its matrices, relative to their start."""

    def __init__(self) -> None:
        self.medians: list[float] = []
        self.steps: list[int] = []

    def note(self, step: int, ratio: float) -> None:
        self.medians = [*self.medians, ratio][-LOOKS_KEPT:]
        self.steps = [*self.steps, step][-LOOKS_KEPT:]

    def is_rising(self, looks: int) -> bool:
        medians = self.medians[-looks:]
        return len(medians) >= looks and all(np.diff(medians) > 0)

    def multiplies(self, looks: int) -> bool:
        """Return whether the sizes have doubled over these samples, by the same factor in each step."""
        medians = self.medians[-looks:]
        if len(medians) < looks or not medians[-1] >= 2.0 * medians[0]:
            return False
        rates = np.diff(np.log(medians)) / np.diff(self.steps[-looks:])
        return bool(rates[-1] >= 0.85 * rates[0])  # the growth has hardly slowed down


@dataclass(frozen=True, slots=True)
class WeightGrowthLimits:
    factor: float = 10.0  # if the loss does not fall
    anyway: float = 100.0  # whatever the loss does
    steady: float = 5.0  # likewise, if each step multiplies them: in a network that learns, growth slows down
    looks: float = 4  # samples in which they have grown each time
    fallen: float = 0.1  # share of the first loss that is gone


class WeightGrowth(Rule):
    """The weights have become many times as large as they were, and keep growing."""

    slug = "weight-growth"
    when = When.SAMPLES
    needs = ("weights",)
    limits = WeightGrowthLimits()

    def __init__(self) -> None:
        self._sizes = Sizes()
        self._growth: dict[int, Growth] = {}

    def update(self, history: History) -> Sign | None:
        known = parameters_of(history)
        size = self._sizes.look(history, known)
        if size is None:
            return None
        # Weights that start at or near zero grow because they must, so they are compared with the usual
        # start.
        start = np.where(self._sizes.start > 0, self._sizes.start, np.nan)
        ratio = size / np.fmax(start, 1.0 / np.sqrt(3.0 * known.fan_in))
        for model, layers in enumerate(known.layers):
            times = median(ratio[layers])
            if not math.isnan(times):
                growth = self._growth.setdefault(model, Growth())
                growth.note(history.step, times)
                limit = self._limit(history, growth)
                if growth.medians[-1] >= limit and growth.is_rising(int(self.limits.looks)):
                    return self._sign(known, ratio, growth, limit)
        return None

    def _limit(self, history: History, growth: Growth) -> float:
        if growth.medians[-1] < min(self.limits.factor, self.limits.steady):
            return self.limits.factor
        if growth.multiplies(int(self.limits.looks)):
            return self.limits.steady
        progress = progress_of(history)
        if progress is None or progress.is_bottomless or progress.fallen < self.limits.fallen:
            return self.limits.factor
        return self.limits.anyway

    def _sign(self, known: ParameterTable, ratio: Doubles, growth: Growth, limit: float) -> Sign:
        times = growth.medians[-1]
        return Sign(
            Severity.WARNING,
            f"The weights are {number(times)} times as large as at the start (more than {number(limit)} "
            "times is too much), and they keep growing.",
            "Look for a loss that rewards large weights (a regularisation with the wrong sign, a loss "
            "without a lower bound), then lower the learning rate, and add a little weight decay: "
            f"{Idiom.ADAMW_WITH_DECAY}.",
            {"size of the weights against the start": Evidence(times, limit)},
            known.chosen(np.nan_to_num(ratio) >= limit),
            since=growth.steps[0],
            sureness=0.85,
        )


@dataclass(frozen=True, slots=True)
class CollapseLimits:
    factor: float = 0.1  # of the size at the start
    share: float = 0.5  # of the matrices have shrunk to it
    fallen: float = 0.1  # share of the first loss that is gone: beyond it, the rest was not needed


class WeightCollapse(Rule):
    """The weights have shrunk to nearly nothing, and the network has learned nothing by it."""

    slug = "weight-collapse"
    when = When.SAMPLES
    needs = ("weights",)
    limits = CollapseLimits()

    def __init__(self) -> None:
        self._sizes = Sizes()
        self._since = 0

    def update(self, history: History) -> Sign | None:
        known = parameters_of(history)
        size = self._sizes.look(history, known)
        if size is None:
            return None
        ratio = size / np.where(self._sizes.start > 0, self._sizes.start, np.nan)
        seen = np.isfinite(ratio)
        small = seen & (np.where(seen, ratio, 1.0) <= self.limits.factor)
        if not small.any() or small.sum() < self.limits.share * seen.sum():
            self._since = history.step
            return None
        if not self._is_harmful(history):
            return None
        most = float(np.median(ratio[small]))
        return Sign(
            Severity.WARNING,
            f"{small.sum()} of {seen.sum()} layers {agree(small.sum(), 'has', 'have')} shrunk to "
            f"{percent(most)} of the size that the weights had at the start (less than "
            f"{percent(self.limits.factor)} is too little), and the loss has not fallen: the network forgets "
            "faster than it learns.",
            "Lower the weight decay (0.01 is usual for AdamW, 1e-4 for SGD), or the weight of a penalty that "
            "you add to the loss.",
            {
                "size of the weights against the start": Evidence(most, self.limits.factor),
                "share of layers": Evidence(float(small.sum() / seen.sum()), self.limits.share),
            },
            known.chosen(small),
            since=self._since,
            sureness=0.85,
        )

    def _is_harmful(self, history: History) -> bool:
        """Return whether the loss has not fallen, or a loss function is no better than a constant answer.

        The second test is needed because a penalty on the weights may fall while nothing is learned.
        """
        progress = progress_of(history)
        if progress is not None and progress.fallen < self.limits.fallen:
            return True
        compared = [
            (float(np.mean(values)), float(np.mean(baselines)))
            for curve in history.curves(LOSSES)
            if curve.name.endswith("/baseline") and len(baselines := curve.tail(4))
            if (value := history.curve(curve.name.replace("/baseline", "/value"))) is not None
            if len(values := value.tail(4))
        ]
        return bool(compared) and all(value >= 0.95 * baseline for value, baseline in compared)
