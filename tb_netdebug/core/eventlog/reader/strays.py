"""Blocks that are not where they belong in a file: their steps were recorded once, but stand too late."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from tb_netdebug.core.eventlog.reader.stretch import Spans, Stretch
from tb_netdebug.core.records.step_ranges import StepRanges

# Blocks in falling order make a stretch each; so many become one again.
MOST_STRETCHES = 128


class Strays:
    """In stretches of rising steps, none of which has a step of another one."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._lasts: list[int] = []  # those of the stretches, rising
        self._known: StepRanges | None = None

    def __len__(self) -> int:
        return len(self.stretches)

    def is_known(self, stretches: Sequence[Stretch], first: int, last: int) -> bool:
        """Whether one of them, or a stray, has a block with a step in the range.

        What the stretches hold is taken in when it is asked for the first time, and from then on as they
        grow: most files never ask.
        """
        if self._known is None:
            self._known = StepRanges()
            for stretch in stretches:
                self.note(stretch.spans(0))
        return self._known.overlaps(first, last)

    def note(self, spans: Spans) -> None:
        """What was added to a stretch."""
        if self._known is not None:
            for first, last in zip(spans["first"].tolist(), spans["last"].tolist(), strict=True):
                self._known.add(first, last)

    def add(self, span: Spans) -> None:
        """Puts it behind the stretch that ends last before it, so that there are few."""
        self.note(span)
        at = bisect_left(self._lasts, int(span["first"][0])) - 1
        if at < 0:
            at = 0
            self.stretches.insert(0, Stretch(int(span["at"][0])))
            self._lasts.insert(0, 0)
        self.stretches[at].add(0, span)
        self._lasts[at] = int(span["last"][0])
        if len(self.stretches) > MOST_STRETCHES:
            self._join()

    def _join(self) -> None:
        spans = np.concatenate([stretch.spans(0) for stretch in self.stretches])
        joined = Stretch(self.stretches[0].start, late=[late for one in self.stretches for late in one.late])
        joined.add(0, spans[np.argsort(spans["first"])])
        self.stretches, self._lasts = [joined], [joined.last]
