"""The rule for labels that are all of one class, and what the rules over labels share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tb_netdebug.checks.evidence.loss_looks import BINARY_LOSSES, CLASS_LOSSES, LossLooks, LossSample, rows
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.phrases import counted
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import BATCH_SIZE

# Last layers that make scores of similarities and distances; a classifier's scores come out of a layer.
PUT_TOGETHER = (None, "Cat", "Stack", "Div", "Mul", "Bmm", "Sum", "Neg", "Sub")
# Labels for each example: two of them may be two views of it.
MOST_LABELS = 2


def is_of_classes(call: LossCallFact) -> bool:
    """Return whether the call gives one label per example to a loss for classes."""
    return call.function in CLASS_LOSSES or call.function in BINARY_LOSSES


def classes_of(call: LossCallFact) -> int:
    return 2 if call.function in BINARY_LOSSES else call.num_classes or 2


def has_one_label_each(call: LossCallFact, history: History) -> bool:
    """Return whether there is one label per example.

    Maps of labels and labels per word do not count, even if they were flattened: neighbours in those are
    rightly alike.
    """
    shape = call.target_shape or ()
    if len(shape) > 1 and math.prod(shape[1:]) != 1:
        return False
    batch = history.curve(BATCH_SIZE)
    return batch is None or rows(call) <= MOST_LABELS * batch.last


@dataclass(frozen=True, slots=True)
class SingleLimits:
    at_once: float = 24  # labels, with three or more classes: this many alike in a row are not chance
    labels: float = 256  # labels, with two classes: one may be rare, and sorted data begin with one class
    steps: float = 4


class LabelsSingleClass(Rule):
    """All labels so far are of one class."""

    slug = "labels-single-class"
    when = When.FACTS
    needs = ("labels", "loss-call")
    limits = SingleLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("classes", "top_class")
        self._only: dict[int, Only] = {}

    def update(self, history: History) -> Iterator[Sign]:
        for look in self._looks.fresh(history):
            if is_of_classes(look.call) and classes_of(look.call) > 1:
                self._only.setdefault(look.number, Only(look.call, look.step)).add(look)
        seen_classes = {(classes_of(each.call), each.top) for each in self._only.values()}
        for only in self._only.values():
            # Several calls may have one label each: real and fake, source and target.
            others = any(
                count == classes_of(only.call) and top != only.top for count, top in seen_classes
            ) or any(other.is_mixed for other in self._only.values())
            if not only.is_mixed and not others and self._is_enough(only, history):
                yield self._sign(only)

    def _is_enough(self, only: Only, history: History) -> bool:
        if (
            classes_of(only.call) > 2
            and has_one_label_each(only.call, history)
            and only.labels >= self.limits.at_once
        ):
            return True
        return only.labels >= self.limits.labels and only.looks >= self.limits.steps

    def _sign(self, only: Only) -> Sign:
        call, classes = only.call, classes_of(only.call)
        # Scores that are not a layer's output were composed, as in contrastive losses: the first one is
        # right.
        is_put_together = classes > 2 and call.last_layer in PUT_TOGETHER
        is_sure = only.labels >= self.limits.labels and only.looks >= self.limits.steps
        severity = Severity.ERROR if is_sure else Severity.WARNING
        return Sign(
            Severity.INFO if is_put_together else severity,
            f"All {only.labels} labels in the {counted(only.looks, 'batch', 'batches')} looked at so far "
            f"are class {only.top:g}, though there are {classes} classes (at least 2 must occur): the "
            f"network learns to answer {only.top:g} to everything.",
            "Look at the labels of a batch: `print(labels.unique(return_counts=True))`. Often the data are "
            "sorted (shuffle=True helps), filtered, or the wrong column is taken as the label.",
            {
                "different classes in the labels": Evidence(1.0, 2.0),
                "labels looked at": Evidence(float(only.labels)),
            },
            where=("label/0",),
            since=only.since,
            sureness=0.9,
        )


@dataclass(slots=True)
class Only:
    """The single class of all labels that a loss call has had so far."""

    call: LossCallFact
    since: int
    top: float = math.nan
    looks: int = 0
    labels: int = 0
    is_mixed: bool = False

    def add(self, look: LossSample) -> None:
        if self.looks == 0:
            self.top = look["top_class"]
        self.looks += 1
        self.labels += rows(look.call)
        if look["classes"] != 1 or look["top_class"] != self.top:
            self.is_mixed = True
