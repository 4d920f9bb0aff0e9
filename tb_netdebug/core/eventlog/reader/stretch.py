"""Stretches: parts of a file in which steps rise, as the places of their blocks. Built by `timeline.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.growing import Growing
from tb_netdebug.core.records.step_ranges import StepRanges

Integers = NDArray[np.int64]
Spans = NDArray[np.void]

# `at` is the place of a block among the entries of its file; `top` is the highest step recorded when the
# block was written.
SPAN = np.dtype([("at", "<i8"), ("first", "<i8"), ("last", "<i8"), ("top", "<i8")])


@dataclass(slots=True)
class Stretch:
    """Blocks of rising steps: `levels[0]` holds the steps themselves, the others levels of detail.

    `late` are the blocks with samples of earlier steps, as place, first and last of these steps. With
    `is_cut` a block counts only for the steps of its span, whatever rows it holds.
    """

    start: int
    levels: dict[int, Growing] = field(default_factory=dict)
    late: list[tuple[int, int, int]] = field(default_factory=list)
    is_cut: bool = False

    @property
    def first(self) -> int:
        return int(self.levels[0].view["first"][0])

    @property
    def last(self) -> int:
        return int(self.levels[0].view["last"][-1])

    def spans(self, level: int) -> Spans:
        table = self.levels.get(level)
        return table.view if table is not None else np.empty(0, SPAN)

    def blocks(self, level: int, low: int, high: int) -> Spans:
        """Return the blocks that may hold something of the given range of steps."""
        spans = self.spans(level)
        start = int(np.searchsorted(spans["last"], low, "left"))
        stop = int(np.searchsorted(spans["first"], high, "right"))
        return spans[start : max(start, stop)]

    def add(self, level: int, spans: Spans) -> None:
        self.levels.setdefault(level, Growing(SPAN)).add(spans)


def spans_of(entries: NDArray[np.void], places: Integers) -> Spans:
    spans = np.zeros(len(entries), SPAN)
    spans["at"], spans["first"], spans["last"] = places, entries["first"], entries["last"]
    return spans


def span_of(at: int, first: int, last: int) -> Spans:
    return np.array([(at, first, last, last)], SPAN)


def overlaid(layers: Sequence[Sequence[tuple[int, int]]]) -> list[tuple[int, int, int]]:
    """Return disjoint rising ranges, each with the place of the first layer that covers it.

    Neighbours of the same layer become one, even across steps that no layer covers.
    """
    covered, found = StepRanges(), list[tuple[int, int, int]]()
    for at, ranges in enumerate(layers):
        fresh = [part for first, last in ranges for part in covered.outside(first, last)]
        for first, last in fresh:
            covered.add(first, last)
            found.append((first, last, at))
    joined: list[tuple[int, int, int]] = []
    for first, last, at in sorted(found):
        if joined and joined[-1][2] == at:
            first = joined.pop()[0]
        joined.append((first, last, at))
    return joined
