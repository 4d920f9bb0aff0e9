"""Rules over the pace: how far one optimizer step moves the weights, relative to their size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import ParameterTable, median, parameters_of
from tb_netdebug.checks.evidence.progress import progress_of
from tb_netdebug.checks.evidence.warm_up import is_rising
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.tensors import Doubles
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import percent
from tb_netdebug.core.records.step import Kind

LOOKS_KEPT = 8


@dataclass(frozen=True, slots=True)
class UpdateRatioHighLimits:
    ratio: float = 0.2  # 0.001 to 0.01 is usual, 0.1 in very small networks
    looks: float = 5  # in a row
    steps: float = 12  # the first steps of small networks are large
    replaced: float = 0.5  # from here on, nothing is left of the weights after a few steps
    fallen: float = 0.1  # share of the first loss that is gone: beyond it, the steps are not too large
    worse: float = 3.0  # times the loss at the start, for some time
    lost: float = 30.0  # times: such a loss needs no patience; a single layer may leap and still come down
    patience: float = 16  # steps


class UpdateRatioHigh(Rule):
    """Each step changes the weights by a large part of their size, and the loss does not fall."""

    slug = "update-ratio-high"
    when = When.SAMPLES
    needs = ("updates",)
    limits = UpdateRatioHighLimits()

    def __init__(self) -> None:
        self._ratios: list[float] = []
        self._since = 0

    @property
    def _high(self) -> list[bool]:
        return [ratio >= self.limits.ratio for ratio in self._ratios]

    def update(self, history: History) -> Sign | None:
        if history.updates.now is None:
            return None
        known = parameters_of(history)
        ratios = known.ratio(history)
        ratio = max(median(ratios[known.matrix]), self._worst(ratios))
        if math.isnan(ratio):
            return None
        if ratio >= self.limits.ratio and not any(self._high):
            self._since = history.step
        self._ratios = [*self._ratios, ratio][-LOOKS_KEPT:]
        if not self._is_bad(history):
            return None
        most = [each for each, is_high in zip(self._ratios, self._high, strict=True) if is_high]
        high = np.nan_to_num(ratios) >= min(self.limits.ratio, ratio)
        return self._sign(float(np.median(most)), known.chosen(high))

    def _worst(self, ratios: Doubles) -> float:
        """Return the largest ratio of a single tensor, if steps replace it, else 0.

        Such a tensor may have a learning rate of its own.
        """
        worst = float(np.nanmax(ratios, initial=0.0))
        return worst if worst >= self.limits.replaced else 0.0

    def _is_bad(self, history: History) -> bool:
        progress = progress_of(history)
        looks = int(self.limits.looks)
        is_long = (
            len(self._ratios) >= looks and history.step >= self.limits.steps and all(self._high[-looks:])
        )
        if progress is None:
            return is_long and min(self._ratios[-looks:]) >= self.limits.replaced
        # At the start the loss may leap, and weights may grow until the same updates are small beside them.
        is_early = history.step < self.limits.patience
        if progress.is_worse(self.limits.lost if is_early else self.limits.worse):
            return sum(self._high[-3:]) >= 3
        return is_long and progress.fallen < self.limits.fallen

    def _sign(self, ratio: float, names: tuple[str, ...]) -> Sign:
        return Sign(
            Severity.WARNING,
            f"Each step changes the weights by {percent(ratio)} of their size (more than "
            f"{percent(self.limits.ratio)} is too much; 0.1 % to 1 % is usual), and the loss does not fall.",
            "Lower the learning rate to a tenth, and again until the change is below 1 %. A warm-up (a rate "
            "that rises over the first hundred steps) helps where only the first steps are too big.",
            {"change in a step against the size of the weights": Evidence(ratio, self.limits.ratio)},
            names,
            since=self._since,
            sureness=0.85,
        )


@dataclass(frozen=True, slots=True)
class LowLimits:
    ratio: float = 1e-6  # at this pace it takes a million steps to replace the weights
    gradient: float = 1e-4  # relative to the weights: with smaller gradients the rate is not what is too low
    looks: float = 6  # in a row
    steps: float = 20  # nothing is reported before
    fallen: float = 0.02  # share of the first loss that is gone


class UpdateRatioLow(Rule):
    """The gradients have a usual size, but the steps are so small that nothing can come of them."""

    slug = "update-ratio-low"
    when = When.SAMPLES
    needs = ("updates", "gradients")
    limits = LowLimits()

    def __init__(self) -> None:
        self._looks = 0
        self._since = 0

    def update(self, history: History) -> Sign | None:
        if history.updates.now is None:
            return None
        known = parameters_of(history)
        ratio = median(known.ratio(history)[known.matrix])
        if not ratio < self.limits.ratio:
            self._looks = 0
            return None
        weight = known.column(history, Kind.WEIGHT, "rms")
        gradient = known.column(history, Kind.GRADIENT, "rms")
        is_strong = (
            median((gradient / np.where(weight > 0, weight, np.nan))[known.matrix]) >= self.limits.gradient
        )
        self._since = self._since if self._looks else history.step
        self._looks = self._looks + 1 if is_strong else 0
        if self._looks < self.limits.looks or history.step < self.limits.steps:
            return None
        return self._sign(history, known, ratio)

    def _sign(self, history: History, known: ParameterTable, ratio: float) -> Sign:
        progress = progress_of(history)
        is_stuck = progress is not None and progress.fallen < self.limits.fallen
        is_warming = is_rising(history)
        but = (
            "the learning rate is still rising"
            if is_warming
            else ("the loss does not fall" if is_stuck else "which may be meant")
        )
        return Sign(
            Severity.WARNING if is_stuck and not is_warming else Severity.INFO,
            f"Each step changes the weights by {percent(ratio)} of their size (less than "
            f"{percent(self.limits.ratio)} is too little; 0.1 % is usual), although the gradients are not "
            f"small; {but}.",
            "Raise the learning rate, tenfold at a time, until the change is about 0.1 % of the weights. "
            f"If a schedule lowers it, look where it is now: {Idiom.PRINT_LEARNING_RATE}.",
            {"change in a step against the size of the weights": Evidence(ratio, self.limits.ratio)},
            since=self._since,
            sureness=0.85 if is_stuck else 0.4,
        )
