"""The rule for labels that are mostly of one class, which may be the only answer that the network gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tb_netdebug.checks.evidence.loss_looks import LossLooks, LossSample, rows
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.labels import classes_of, is_of_classes
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import number, percent

MOST_CLASSES = 64


@dataclass(frozen=True, slots=True)
class ImbalanceLimits:
    ratio: float = 10.0  # most frequent class relative to the mean of the others
    labels: float = 500  # fewer may be chance
    looks: float = 6  # batches in a row in which every answer is the most frequent class
    mixed_looks: float = 3  # of them with other classes as well: only these prove it
    steps: float = 64  # at first, every network answers like that
    likeness: float = 0.005  # of accuracy and share of the class, in batches where it is the only answer
    share_of_baseline: float = 0.7  # of a constant answer's loss; below it, rare classes are being learned


class LabelsImbalanced(Rule):
    """One class is far more frequent than the others, and may be the only answer that is given."""

    slug = "labels-imbalanced"
    when = When.STEPS
    needs = ("labels", "loss-call")
    limits = ImbalanceLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("top_share", "top_class", "accuracy", "value", "baseline")
        self._counted: dict[int, Counted] = {}

    def update(self, history: History) -> Iterator[Sign]:
        fresh = set()
        for look in self._looks.fresh(history):
            if is_of_classes(look.call):
                self._counted.setdefault(look.number, Counted()).add(look, self.limits.likeness)
                fresh.add(look.number)
        for place in fresh:
            counted = self._counted[place]
            ratio = counted.ratio
            if counted.labels >= self.limits.labels and ratio > self.limits.ratio and counted.is_mixed:
                yield self._sign(counted, ratio, history.step)

    def _sign(self, counted: Counted, ratio: float, step: int) -> Sign:
        limits = self.limits
        is_all_it_says = (
            counted.answered >= limits.looks
            and counted.mixed >= limits.mixed_looks
            and step - counted.answered_since >= limits.steps
            and not counted.loss < limits.share_of_baseline * counted.baseline
        )
        effect = (
            f" In the last {counted.answered} batches that were sampled, the network gave this answer to "
            f"everything ({limits.looks:.0f} are enough): its accuracy is only the share of that class."
            if is_all_it_says
            else " Giving this answer to everything is as accurate, without any learning."
        )
        share = counted.top_labels / counted.labels
        return Sign(
            Severity.WARNING if is_all_it_says else Severity.INFO,
            f"{percent(share)} of {counted.labels} labels are class {counted.top:g}, {number(ratio, 2)} "
            f"times as many as of another class on average (more than {number(limits.ratio)} times is called "
            f"imbalanced).{effect}",
            f"{Idiom.WEIGH_RARE_CLASSES}; and judge by balanced accuracy or F1.",
            {
                "most frequent to the other classes": Evidence(ratio, limits.ratio),
                "batches answered by one class": Evidence(float(counted.answered), limits.looks),
            },
            where=("label/0",),
            since=counted.answered_since if is_all_it_says else None,
            sureness=0.85,
        )


@dataclass(slots=True)
class Counted:
    """The labels of a loss call so far.

    It counts all labels, those of the most frequent class, and the batches in a row in which every answer was
    that class.
    """

    classes: int = 2
    labels: int = 0
    tops: dict[float, float] = field(default_factory=dict)
    is_mixed: bool = False
    answered: int = 0
    mixed: int = 0
    answered_since: int = 0
    loss: float = 0.0
    baseline: float = 0.0

    def add(self, look: LossSample, likeness: float) -> None:
        count = rows(look.call)
        self.classes = classes_of(look.call)
        self.labels += count
        top, share = look["top_class"], look["top_share"]
        if top in self.tops or len(self.tops) < MOST_CLASSES:
            self.tops[top] = self.tops.get(top, 0.0) + share * count
        self.is_mixed = self.is_mixed or share < 1.0 or len(self.tops) > 1
        if top != self.top or abs(look["accuracy"] - share) > likeness:
            self.answered = self.mixed = 0
            return
        if not self.answered:
            self.answered_since, self.loss, self.baseline = look.step, 0.0, 0.0
        self.answered += 1
        self.mixed += share < 1.0  # in a batch of one class, a good network answers just this class as well
        self.loss += look["value"]
        self.baseline += look["baseline"]

    @property
    def top(self) -> float:
        return max(self.tops, key=lambda each: self.tops[each])

    @property
    def top_labels(self) -> float:
        return self.tops[self.top]

    @property
    def ratio(self) -> float:
        """The labels of the most frequent class relative to the mean of the others."""
        others = (self.labels - self.top_labels) / max(self.classes - 1, 1)  # a loss may have one class
        # Half a label at least, so that classes that never occur make no infinite ratio.
        return self.top_labels / max(others, 0.5)
