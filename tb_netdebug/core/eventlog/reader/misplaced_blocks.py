"""Blocks in the wrong place of a file: recorded once, but standing too late. Used by `timeline.py`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from tb_netdebug.core.eventlog.reader.stretch import Spans, Stretch
from tb_netdebug.core.records.step_ranges import StepRanges

# Blocks in falling order make a stretch each; when there are more than this, all are joined into one.
MOST_STRETCHES = 128


class MisplacedBlocks:
    """The stray blocks of one track, in stretches of rising steps, no two of which overlap."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._lasts: list[int] = []  # the last step of each stretch, rising
        self._known: StepRanges | None = None

    def __len__(self) -> int:
        return len(self.stretches)

    def is_known(self, stretches: Sequence[Stretch], first: int, last: int) -> bool:
        """Return whether one of the stretches, or a stray, has a block with a step in the range.

        The index of known steps is built on the first call and maintained from then on: most files never ask.
        """
        if self._known is None:
            self._known = StepRanges()
            for stretch in stretches:
                self.note(stretch.spans(0))
        return self._known.overlaps(first, last)

    def note(self, spans: Spans) -> None:
        """Add the steps of new blocks to the index, if there is one yet."""
        if self._known is not None:
            for first, last in zip(spans["first"].tolist(), spans["last"].tolist(), strict=True):
                self._known.add(first, last)

    def add(self, span: Spans) -> None:
        """Append a stray to the stretch that ends closest before it, so that there are few stretches."""
        self.note(span)
        at = bisect_left(self._lasts, int(span["first"][0])) - 1
        # No stretch ends before it: begin one.
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
