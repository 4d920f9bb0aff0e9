"""Find the optimizers of a run, and count their updates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Optimizers:
    """The optimizers that were given and those of compiled models, else those that a loop has stepped."""

    def __init__(
        self, given: Sequence[Any], models: Mapping[str, Any], stepped: Callable[[], list[Any]]
    ) -> None:
        self._given = list(given)
        self._models = list(models.values())
        self._stepped = stepped

    def known(self) -> list[Any]:
        compiled = [getattr(each, "optimizer", None) for each in self._models]
        found = {id(each): each for each in (*self._given, *compiled) if each is not None}
        return list(found.values()) or self._stepped()


class Updates:
    """Knows whether and how often optimizers update the weights: under accumulation not in every batch.

    `value_of` returns the value of one of their variables.
    """

    def __init__(self, value_of: Callable[[Any], Any]) -> None:
        self._value_of = value_of
        self._begun: dict[int, int] = {}

    def are_whole(self, optimizers: Sequence[Any]) -> bool:
        """Return whether no optimizer is in the middle of accumulating gradients."""
        adding = [each for each in optimizers if accumulated(each) > 1]
        return not any(self._batches(each) % accumulated(each) for each in adding)

    def made(self, optimizers: Sequence[Any]) -> int:
        """Return the number of updates since each optimizer was first seen, including that step's."""
        total = 0
        for each in optimizers:
            batches = self._batches(each)
            begun = self._begun.setdefault(id(each), max(batches - 1, 0))
            total += batches // accumulated(each) - begun // accumulated(each)
        return total

    def _batches(self, optimizer: Any) -> int:
        """Return how many batches of gradients it has taken; overflows of the loss scale do not count."""
        return int(self._value_of(inner(optimizer)._iterations))


def inner(optimizer: Any) -> Any:
    """Return the optimizer that moves the weights, unwrapped from one that scales the loss."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def accumulated(optimizer: Any) -> int:
    """Return how many batches it accumulates before it moves the weights."""
    return int(getattr(inner(optimizer), "gradient_accumulation_steps", None) or 1)
