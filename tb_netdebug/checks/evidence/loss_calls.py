"""The loss functions behind the recorded loss: whether it is theirs, and what guessing would get."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np

from tb_netdebug.checks.evidence.loss_shape import middle
from tb_netdebug.checks.history import History
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import LOSS, of_loss
from tb_netdebug.core.records.step import StepRecord

# The recorded loss is that of the loss calls if their ratio is constant within this …
SAME = 2e-3
LEAST_COMPARED = 4
# … or roughly constant, where a step has several batches and only the first is measured.
ALIKE = 0.3
LEAST_ALIKE = 8
# A batch with fewer rows says little about what a constant answer would get on all data.
LEAST_ROWS = 8
RATIOS_KEPT = 32

# Functions whose value is never negative, unless they are given something that they are not made for.
NEVER_NEGATIVE = frozenset({
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "hinge_embedding_loss", "margin_ranking_loss",
    "multi_margin_loss", "multilabel_margin_loss", "soft_margin_loss", "triplet_margin_loss", "kl_div",
})  # fmt: skip


class LossCallTable:
    """Compares the recorded loss with the loss functions that were seen, and with guessing.

    `chance` is the loss of the best constant answer in units of the recorded loss. It is None if that is not
    known, or if the recorded loss has little to do with the loss functions that were seen.

    `factor` is the ratio of the recorded loss to theirs; `are_the_loss` says that it is the same in each
    step. `first_ratio` is the very first ratio, and `ratio` the last one. `least` is the lowest share of
    `chance` that the loss functions had so far, and `level` that of the last samples, or of the very last
    alone if that is lower. `share` and `error_of_chance` say how sure that is. `remains` is the value of the
    last samples as a share of the first ones.

    `targets_move`: the targets have moved further than they are wide, like values that are being learned.

    `is_contrast`: of several classes it is always the same one that is right, as in contrastive losses with a
    queue, where the others get harder while the network learns.
    """

    def __init__(self) -> None:
        self.chance: float | None = None
        self.factor = math.nan
        self.are_the_loss = False
        self.targets_move = False
        self.is_contrast = False
        self.first_ratio = math.nan
        self.least = math.inf
        self._ratios: list[float] = []
        self._levels: deque[float] = deque(maxlen=LEAST_ALIKE)
        self._pairs: deque[tuple[int, float, float]] = deque(maxlen=RATIOS_KEPT)
        self._chances: list[float] = []
        self._first_values: list[float] = []
        self._last_values: deque[float] = deque(maxlen=LEAST_ALIKE)

    @property
    def remains(self) -> float:
        """The last values of the loss functions as a share of the first; NaN while samples are too few."""
        first = float(np.median(self._first_values)) if len(self._last_values) == LEAST_ALIKE else 0.0
        return float(np.mean(self._last_values)) / first if first > 0 else math.nan

    def has_fallen_to(self, share: float) -> bool:
        """Return whether the loss functions fell to this share of their start, in a loss with other parts.

        The other parts have a level of their own, and the weights of parts may change during a run.
        """
        return not self.are_the_loss and self.remains <= share

    @property
    def ratio(self) -> float:
        return self._ratios[-1] if self._ratios else math.nan

    @property
    def level(self) -> float:
        levels = self._levels
        return min(sum(levels) / LEAST_ALIKE, levels[-1]) if len(levels) == LEAST_ALIKE else math.nan

    def has_learned(self, share: float) -> bool:
        """Return whether the functions are below guessing by this share, in a loss that has other parts."""
        return not self.are_the_loss and self.level < 1.0 - share

    @property
    def hardest(self) -> float:
        """The loss of a constant answer in the hardest of the last samples; NaN if it is not known."""
        return max(self._chances[-LEAST_ALIKE:], default=math.nan) * abs(self.factor)

    @property
    def error_of_chance(self) -> float:
        """The standard error of `chance`: batches differ in how far apart their targets are."""
        return float(np.std(self._chances)) * abs(self.factor) / math.sqrt(max(len(self._chances), 1))

    def share(self, since: int) -> tuple[float, float]:
        """Return the share that the loss has of a constant answer's after `since`, and its standard error.

        Both come from the same samples: a batch that is hard by chance is hard for both. That leaves less
        doubt than comparing a mean over all steps with a mean over the few that were sampled. The share is
        NaN if no step was.
        """
        late = [pair for pair in self._pairs if pair[0] > since]
        chance = sum(pair[2] for pair in late)
        if not chance > 0 or len(self._pairs) < LEAST_ALIKE:
            return math.nan, math.inf
        each = np.array([value / guess for _, value, guess in self._pairs if guess > 0])
        # Not by `noise`: single batches may be unlike the others, such as the last of an epoch.
        return sum(pair[1] for pair in late) / chance, float(each.std()) / math.sqrt(len(late))

    def compare(self, history: History, records: Iterable[StepRecord]) -> None:
        calls = history.known_facts(LossCallFact)
        if not calls or not sum(self._take(calls, record) for record in records):
            return
        del self._ratios[:-RATIOS_KEPT], self._chances[:-RATIOS_KEPT]
        self._weigh()
        self.targets_move = any(moving_targets(history, key) for key in calls)
        known = math.isfinite(self.factor) and bool(self._chances)
        chance = float(np.mean(self._chances)) * abs(self.factor) if known else 0.0
        self.chance = chance if chance > 0 else None
        self.is_contrast = len(self._chances) >= LEAST_ALIKE and all(is_fixed(history, key) for key in calls)

    def _take(self, calls: Mapping[int | str, LossCallFact], record: StepRecord) -> bool:
        """Add up all calls of a step; return False if none was measured in it."""
        value, chance = 0.0, 0.0
        was_measured = False
        for key, call in calls.items():
            one = record.scalars.get(of_loss(key, "value"))
            if one is not None:
                was_measured = True
                value += one
                chance += chance_of(call, key, record.scalars)
        loss = record.scalars.get(LOSS)
        if was_measured and loss is not None and value and math.isfinite(loss) and math.isfinite(value):
            self._ratios.append(loss / value)
            if math.isnan(self.first_ratio):
                self.first_ratio = loss / value
            if len(self._first_values) < LEAST_ALIKE:
                self._first_values.append(value)
            self._last_values.append(value)
        if was_measured and math.isfinite(chance):
            self._chances.append(chance)
            self._levels.append(value / chance if chance > 0 else math.nan)
            if math.isfinite(value):
                self._pairs.append((record.step, value, chance))
            self.least = min(self.least, self._levels[-1])
        return was_measured

    def _weigh(self) -> None:
        ratios = np.sort(self._ratios)
        count = len(ratios)
        self.are_the_loss = count >= LEAST_COMPARED and ratios[-1] - ratios[0] <= SAME * np.abs(ratios).max()
        self.factor = float(ratios[count // 2]) if self.are_the_loss else math.nan
        if not self.are_the_loss and count >= LEAST_ALIKE:
            # The 10th, 50th and 90th percentile.
            low, typical, high = (float(ratios[place * (count - 1) // 10]) for place in (1, 5, 9))
            self.factor = typical if high - low < ALIKE * abs(typical) else math.nan


def chance_of(call: LossCallFact, key: int | str, scalars: dict[str, float]) -> float:
    """Return what the best constant answer would get on such data; NaN if there are too few rows to say.

    The recorded baseline is that of the best constant answer for this very batch. It is too low, the more so
    the fewer rows there are, which is corrected here.
    """
    baseline = scalars.get(of_loss(key, "baseline"), math.nan)
    uniform, classes = scalars.get(of_loss(key, "uniform")), scalars.get(of_loss(key, "classes"), 2.0)
    shape = call.target_shape or (1,)
    if uniform is None:
        rows = max(shape[0], 1)
        # As for the variance of a sample, which is too low by (n - 1) / n.
        return baseline * rows / (rows - 1) if rows >= LEAST_ROWS else math.nan
    rows = max(math.prod(shape), 1)
    if rows < max(LEAST_ROWS, 2.0 * classes):
        return math.nan
    missing = max(classes - 1.0, 0.0) / 2.0  # Miller-Madow correction of the entropy, times the rows
    if call.reduction == "sum":
        return baseline + missing
    return min(baseline + missing / rows, max(uniform, baseline))


def is_fixed(history: History, key: int | str) -> bool:
    """Return whether all labels were the same so far, though there are several classes."""
    baseline = history.curve(of_loss(key, "baseline"))
    has_classes = history.curve(of_loss(key, "uniform")) is not None
    return has_classes and baseline is not None and baseline.highest == 0.0


def moving_targets(history: History, key: int | str) -> bool:
    mean, std = (history.curve(of_loss(key, f"target_{name}")) for name in ("mean", "std"))
    if mean is None or std is None or mean.count < LEAST_ALIKE:
        return False
    if history.curve(of_loss(key, "uniform")) is not None:
        return False
    means, widths = mean.tail(64), std.tail(64)
    quarter = len(means) // 4
    apart = abs(float(means[:quarter].mean() - means[-quarter:].mean()))
    return bool(apart > middle(widths))
