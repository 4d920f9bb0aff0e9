"""Comparing on a machine that is never quite still: everybody in turn, and ratios within a round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import TypeVar

Item = TypeVar("Item")


def turn(items: Sequence[Item], number: int) -> list[Item]:
    """The order of a round: each begins once, and every other round goes backwards, so that nobody always
    comes after the same one."""
    start = number % len(items)
    first, *others = [*items[start:], *items[:start]]
    return [first, *(others[::-1] if number % 2 else others)]


def paired(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over rounds of the ratio within a round: what slows a whole round down cancels out."""
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The median over rounds of the difference within a round."""
    return median(a - b for a, b in zip(ours, theirs, strict=True))


def paired_middle(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The same as the mean of the middle half of the rounds: where a round holds one costly step or two, a
    median jumps between the two."""
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    outer = len(ratios) // 4
    return fmean(ratios[outer : len(ratios) - outer])


def timed(action: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def contest(
    actions: Mapping[str, Callable[[], object]], rounds: int, *, tick: Callable[[int], None]
) -> dict[str, list[float]]:
    """Seconds of one call of each action in each round, after one call that does not count."""
    secs: dict[str, list[float]] = {name: [] for name in actions}
    for action in actions.values():
        action()
    for number in range(rounds):
        tick(number)
        for name in turn(list(actions), number):
            secs[name].append(timed(actions[name]))
    return secs
