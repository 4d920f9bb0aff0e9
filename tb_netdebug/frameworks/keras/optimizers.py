"""The optimizers of a training, wherever they were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Optimizers:
    """Those that were given, and those of compiled models; else those that a loop has stepped."""

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
    """Whether and how often optimizers move the weights: not with every batch where they add up gradients.

    `value_of` gives that of one of their variables.
    """

    def __init__(self, value_of: Callable[[Any], Any]) -> None:
        self._value_of = value_of
        self._begun: dict[int, int] = {}

    def are_whole(self, optimizers: Sequence[Any]) -> bool:
        """Not while one only adds up gradients."""
        adding = [each for each in optimizers if accumulated(each) > 1]
        return not any(self._batches(each) % accumulated(each) for each in adding)

    def made(self, optimizers: Sequence[Any]) -> int:
        """Since the first step in which each was seen, which it has made already."""
        total = 0
        for each in optimizers:
            batches = self._batches(each)
            begun = self._begun.setdefault(id(each), max(batches - 1, 0))
            total += batches // accumulated(each) - begun // accumulated(each)
        return total

    def _batches(self, optimizer: Any) -> int:
        """How many batches of gradients it has taken; those that a loss scale made infinite do not count."""
        return int(self._value_of(inner(optimizer)._iterations))


def inner(optimizer: Any) -> Any:
    """That which moves the weights: one that scales the loss is around another."""
    return getattr(optimizer, "inner_optimizer", optimizer)


def accumulated(optimizer: Any) -> int:
    """How many batches it adds up before it moves the weights."""
    return int(getattr(inner(optimizer), "gradient_accumulation_steps", None) or 1)
