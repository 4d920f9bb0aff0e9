"""The rule for data sorted by class: each batch has few classes, in the order of the classes."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from tb_netdebug.checks.evidence.loss_looks import LossLooks, LossSample, rows
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.labels import classes_of, has_one_label_each, is_of_classes
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import percent

BATCHES_KEPT = 64


@dataclass(frozen=True, slots=True)
class SortedLimits:
    batches: float = 8
    excess: float = 0.3  # how much more alike the labels of one batch are than those of all batches together
    neighbours: float = 16  # with batches of one example: pairs of neighbouring batches
    neighbours_excess: float = 0.4
    blocks: float = 0.9  # of neighbours within a batch are equal: blocks of several classes, in order


class LabelsSorted(Rule):
    """Each batch has few classes, while all batches together have many."""

    slug = "labels-sorted"
    when = When.STEPS
    needs = ("labels", "loss-call")
    limits = SortedLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("collision", "top_class", "top_share", "classes", "adjacent_equal")
        self._batches: dict[int, Batches] = {}

    def update(self, history: History) -> Iterator[Sign]:
        fresh = set()
        for look in self._looks.fresh(history):
            if is_of_classes(look.call) and has_one_label_each(look.call, history):
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
        if batches.classes == 2 and pairs and alike < pooled:
            return  # the classes take turns, as real and fake examples do
        if batches.size > 1.5:
            # Of two labels drawn from one batch, one in `size` is drawn twice, and equals itself.
            chance = 1 / batches.size + (1 - 1 / batches.size) * pooled
            # A chance cannot exceed 1: where it is high already, less excess has to do.
            seen, limit = batches.mean("collision"), min(chance + limits.excess, 0.98)
        else:
            seen, chance, limit = alike, pooled, pooled + limits.neighbours_excess
            if pairs < limits.neighbours:
                return
        # Where nearly all labels are of one class, batches of that class prove nothing.
        if seen >= limit and pooled < 0.9:
            words = "Two labels of the same batch are equal"
            yield self._sign(batches, words, seen, chance, limit)
        elif batches.is_in_blocks(limits):
            words = "Two labels that are neighbours in their batch are equal"
            yield self._sign(batches, words, batches.mean("adjacent_equal"), seen, limits.blocks)

    def _sign(self, batches: Batches, words: str, seen: float, chance: float, limit: float) -> Sign:
        return Sign(
            Severity.WARNING,
            f"{words} with a chance of {percent(seen)}; in shuffled data it would be about "
            f"{percent(chance)} (more than {percent(limit)} is too much). The data are sorted by class: "
            "the network learns one class at a time and forgets the others.",
            f"Shuffle: {Idiom.SHUFFLED}.",
            {
                "chance that two labels are equal": Evidence(seen, limit),
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

    looks: deque[LossSample] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))

    def add(self, look: LossSample) -> None:
        self.looks.append(look)

    @property
    def size(self) -> float:
        return sum(rows(look.call) for look in self.looks) / len(self.looks)

    @property
    def classes(self) -> int:
        return max(classes_of(self.looks[-1].call), 2)

    def mean(self, name: str) -> float:
        return sum(look[name] for look in self.looks) / len(self.looks)

    def is_in_blocks(self, limits: SortedLimits) -> bool:
        """Return whether each batch has a few of many classes, in blocks, and they change between batches."""
        few = self.mean("classes") <= self.classes / 2
        tops = {look["top_class"] for look in self.looks}
        equal = self.mean("adjacent_equal")
        return (
            few
            and len(tops) > 1
            and equal >= limits.blocks
            and equal - self.mean("collision") >= limits.excess
        )

    def pooled(self) -> float:
        """Return the chance that two labels out of all these batches are equal.

        Only the most frequent class of each batch is known exactly; of the others, only their number.
        """
        shares: dict[float, float] = {}
        rest = 0.0
        for look in self.looks:
            shares[look["top_class"]] = shares.get(look["top_class"], 0.0) + look["top_share"]
            rest += 1 - look["top_share"]
        # Of a thousand classes that the network knows, only a few may occur.
        classes = max(len(shares), min(self.classes, self.mean("classes")))
        known = [share / len(self.looks) for share in shares.values()]
        # Labels outside a batch's most frequent class are taken to be spread evenly over all classes.
        even = rest / len(self.looks) / classes
        return sum((share + even) ** 2 for share in known) + (classes - len(known)) * even**2

    def neighbours(self) -> tuple[int, float]:
        """Return how many pairs of batches followed each other, and the share of pairs of the same class."""
        looks = list(self.looks)
        # Steps between two measured ones had batches as well: those two are no neighbours.
        pairs = [
            first["top_class"] == second["top_class"]
            for first, second in itertools.pairwise(looks)
            if second.step == first.step + 1
        ]
        return len(pairs), sum(pairs) / max(len(pairs), 1)
