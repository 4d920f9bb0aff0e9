"""Rules over labels: of one class only, of one class mostly, in order of classes."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..finding import Evidence, Severity, Sign
from ..history import History
from ..rule import Rule, When
from .loss_looks import BINARY_LOSSES, CLASS_LOSSES, Look, LossLooks, rows

BATCHES_KEPT = 64
# What makes scores of similarities and distances; a classifier's scores come out of a layer.
PUT_TOGETHER = (None, "Cat", "Stack", "Div", "Mul", "Bmm", "Sum", "Neg", "Sub")


def is_of_classes(call: dict[str, Any]) -> bool:
    """One label an example, given to a loss for classes."""
    function = call.get("function")
    return function in CLASS_LOSSES or function in BINARY_LOSSES


def classes_of(call: dict[str, Any]) -> int:
    return 2 if call.get("function") in BINARY_LOSSES else int(call.get("num_classes") or 2)


def labels_an_example(call: dict[str, Any]) -> bool:
    """Not a map of labels, nor several labels an example: neighbours in those are rightly alike."""
    shape = tuple(call.get("target_shape") or ())
    return len(shape) <= 1 or math.prod(shape[1:]) == 1


@dataclass(frozen=True, slots=True)
class SingleLimits:
    at_once: float = 24  # labels of three and more classes: so many alike in a row are no chance
    labels: float = 256  # of two classes one may be rare; and sorted data begin with one class
    steps: float = 4


class LabelsSingleClass(Rule):
    """All labels so far are of one class."""

    slug = "labels-single-class"
    when = When.FACTS
    needs = ("labels", "loss-call")
    limits = SingleLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("classes", "top_class")
        self._only: dict[Any, Only] = {}

    def update(self, history: History) -> Iterator[Sign]:
        for look in self._looks.fresh(history):
            if is_of_classes(look.call):
                self._only.setdefault(look.number, Only(look.call, look.step)).add(look)
        seen_classes = {(classes_of(each.call), each.top) for each in self._only.values()}
        for only in self._only.values():
            # real and false, source and target: several calls, each with a label of its own
            others = any(
                count == classes_of(only.call) and top != only.top for count, top in seen_classes
            ) or any(other.is_mixed for other in self._only.values())
            if not only.is_mixed and not others and self._is_enough(only):
                yield self._sign(only)

    def _is_enough(self, only: Only) -> bool:
        if classes_of(only.call) > 2 and labels_an_example(only.call) and only.labels >= self.limits.at_once:
            return True
        return only.labels >= self.limits.labels and only.looks >= self.limits.steps

    def _sign(self, only: Only) -> Sign:
        call, classes = only.call, classes_of(only.call)
        # scores that are no layer's output were put together, as in contrastive losses: the first is right
        is_put_together = classes > 2 and call.get("last_layer") in PUT_TOGETHER
        is_sure = only.labels >= self.limits.labels and only.looks >= self.limits.steps
        severity = Severity.ERROR if is_sure else Severity.WARNING
        return Sign(
            Severity.INFO if is_put_together else severity,
            f"All {only.labels} labels in the first {only.looks} batches looked at are class {only.top:g}, "
            f"though there are {classes} classes (at least 2 must occur): the network learns to say "
            f"{only.top:g} to everything.",
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
    """The one class of all labels that a loss call has had so far."""

    call: dict[str, Any]
    since: int
    top: float = math.nan
    looks: int = 0
    labels: int = 0
    is_mixed: bool = False

    def add(self, look: Look) -> None:
        if self.looks == 0:
            self.top = look["top_class"]
        self.looks += 1
        self.labels += rows(look.call)
        if look["classes"] != 1 or look["top_class"] != self.top:
            self.is_mixed = True


@dataclass(frozen=True, slots=True)
class SortedLimits:
    batches: float = 8
    excess: float = 0.3  # how much more alike the labels of a batch are than those of all batches together
    neighbours: float = 16  # batches of one example each: as many pairs of neighbours
    neighbours_excess: float = 0.4


class LabelsSorted(Rule):
    """Each batch is of few classes, while all of them together are of many."""

    slug = "labels-sorted"
    when = When.STEPS
    needs = ("labels", "loss-call")
    limits = SortedLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("collision", "top_class", "top_share", "classes")
        self._batches: dict[Any, Batches] = {}

    def update(self, history: History) -> Iterator[Sign]:
        fresh = set()
        for look in self._looks.fresh(history):
            if is_of_classes(look.call) and labels_an_example(look.call):
                self._batches.setdefault(look.number, Batches()).add(look)
                fresh.add(look.number)
        for number in fresh:
            yield from self._judge(self._batches[number])

    def _judge(self, batches: Batches) -> Iterator[Sign]:
        limits = self.limits
        if len(batches.looks) < limits.batches:
            return
        pooled = batches.pooled()
        pairs, alike = batches.neighbours()
        if pairs and alike < pooled:
            return  # the classes take turns
        if batches.size > 1.5:
            chance = 1 / batches.size + (1 - 1 / batches.size) * pooled
            seen, limit = batches.collision, min(chance + limits.excess, 0.98)
        else:
            seen, chance, limit = alike, pooled, pooled + limits.neighbours_excess
            if pairs < limits.neighbours:
                return
        if seen >= limit and pooled < 0.9:
            yield self._sign(batches, seen, chance, limit)

    def _sign(self, batches: Batches, seen: float, chance: float, limit: float) -> Sign:
        return Sign(
            Severity.WARNING,
            f"Two labels of the same batch are equal with a chance of {seen:.0%}; were the data shuffled it "
            f"would be about {chance:.0%} (more than {limit:.0%} is too much). The data come sorted by "
            "class: the network learns one class at a time and forgets those before.",
            "Shuffle: `DataLoader(..., shuffle=True)`, or `order = torch.randperm(len(inputs))` in each "
            "epoch.",
            {
                "chance that two labels of a batch are equal": Evidence(seen, limit),
                "the same if shuffled": Evidence(chance),
                "batches looked at": Evidence(float(len(batches.looks)), self.limits.batches),
            },
            where=("label/0",),
            since=batches.looks[0].step,
            sureness=0.85,
        )


@dataclass(slots=True)
class Batches:
    """The labels of the last batches of a loss call."""

    looks: deque[Look] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    def add(self, look: Look) -> None:
        self.looks.append(look)

    @property
    def size(self) -> float:
        return sum(rows(look.call) for look in self.looks) / len(self.looks)

    @property
    def collision(self) -> float:
        return sum(look["collision"] for look in self.looks) / len(self.looks)

    def pooled(self) -> float:
        """The chance that two labels out of all these batches are equal, as far as their most frequent
        classes tell; what is known of the others is only how many there are."""
        shares: dict[float, float] = {}
        rest = 0.0
        for look in self.looks:
            shares[look["top_class"]] = shares.get(look["top_class"], 0.0) + look["top_share"]
            rest += 1 - look["top_share"]
        classes = max(classes_of(self.looks[-1].call), len(shares), 2)
        known = [share / len(self.looks) for share in shares.values()]
        # what is not the most frequent class of its batch is spread over all classes alike
        even = rest / len(self.looks) / classes
        return sum((share + even) ** 2 for share in known) + (classes - len(known)) * even**2

    def neighbours(self) -> tuple[int, float]:
        """How many pairs of batches came one after the other, and the share of those of the same class."""
        looks = list(self.looks)
        pairs = [
            first["top_class"] == second["top_class"]
            for first, second in itertools.pairwise(looks)
            if second.step == first.step + 1
        ]
        return len(pairs), sum(pairs) / max(len(pairs), 1)
