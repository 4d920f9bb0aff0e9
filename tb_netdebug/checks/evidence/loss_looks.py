"""The measurements at the calls of loss functions, as rules ask for them: each sample once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tb_netdebug.checks.history import History
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import of_loss

CLASS_LOSSES = frozenset({"cross_entropy", "nll_loss"})
BINARY_LOSSES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
REGRESSION_LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})


@dataclass(frozen=True, slots=True)
class LossSample:
    """One sampled loss call. `call` is its `loss-call` fact; a number that was not measured is NaN."""

    call: LossCallFact
    step: int
    numbers: dict[str, float]

    @property
    def number(self) -> int:
        """The id of the call; there may be several in one line of a program."""
        return self.call.id

    @property
    def function(self) -> str:
        return self.call.function

    @property
    def last_layer(self) -> str:
        """The class of the module whose output the loss was given; empty if it was something else."""
        return self.call.last_layer or ""

    @property
    def place(self) -> str:
        return self.call.site or self.call.module or self.function

    def __getitem__(self, name: str) -> float:
        return self.numbers.get(name, math.nan)


class LossLooks:
    """Yields the samples that are new since the last time; each rule has its own.

    `names` are the measurements that the rule needs, behind `probe/loss/N/`. A sample is yielded if the first
    of them was measured.
    """

    def __init__(self, *names: str) -> None:
        self._names = names
        self._keys: dict[int | str, list[tuple[str, str]]] = {}
        self._step = -1

    def fresh(self, history: History) -> Iterator[LossSample]:
        calls = history.known_facts(LossCallFact)
        if not calls:
            return
        since, self._step = self._step, history.step
        records = [each for each in history.recent if each.step > since]
        for number, call in list(calls.items()):
            keys = self._keys.get(number)
            if keys is None:
                keys = self._keys[number] = [(name, of_loss(number, name)) for name in self._names]
            first = keys[0][1]
            for record in records:
                scalars = record.scalars
                if first in scalars:
                    numbers = {name: scalars[key] for name, key in keys if key in scalars}
                    yield LossSample(call, record.step, numbers)


def rows(call: LossCallFact) -> int:
    """Return how many answers of the network a call compares; for maps of labels, all their pixels."""
    target = call.target_shape or ()
    if call.num_classes and target == call.input_shape:
        target = target[:1]  # the targets are shares of classes, not class numbers
    return math.prod(target)
