"""Which block of a file holds which steps: of one rank, in stretches of rising steps.

A training that is resumed goes back some steps and records them again: then a new stretch begins, and the
newest recording of a step is the one that counts. The flight recorder's late samples belong to steps that
are recorded already; they begin no stretch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.reader.file_index import FileIndex
from tb_netdebug.reader.growing import Growing

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Spans = NDArray[np.void]
# Of blocks of the given places: the steps of their rows, and which rows are more than late samples.
ReadRows = Callable[[Integers], Sequence[tuple[Integers, Flags]]]

# `at` is the place of a block in the entries of its file, `top` the highest step when it was written.
SPAN = np.dtype([("at", "<i8"), ("first", "<i8"), ("last", "<i8"), ("top", "<i8")])

# A hostile file may go back in every block: then only the newest stretches are kept, and only so many
# blocks are looked into to tell late samples from a training that was resumed.
MOST_STRETCHES = 512
MOST_LOOKS = 2000
MOST_STEPS = 1 << 60


@dataclass(slots=True)
class Stretch:
    """Blocks of rising steps: `levels[0]` are the steps themselves, the others levels of detail.

    `late` are blocks with samples of steps before those that they count for.
    """

    start: int
    levels: dict[int, Growing] = field(default_factory=dict)
    late: list[tuple[int, int, int]] = field(default_factory=list)

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
        """Those that may hold something of the given range of steps."""
        spans = self.spans(level)
        start = int(np.searchsorted(spans["last"], low, "left"))
        stop = int(np.searchsorted(spans["first"], high, "right"))
        return spans[start : max(start, stop)]

    def add(self, level: int, spans: Spans) -> None:
        self.levels.setdefault(level, Growing(SPAN)).add(spans)


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of steps, and the stretch that has the newest recording of it."""

    track: Track
    stretch: Stretch
    first: int
    last: int

    def part(self, first: int | None, last: int | None) -> Piece | None:
        low = self.first if first is None else max(first, self.first)
        high = self.last if last is None else min(last, self.last)
        return Piece(self.track, self.stretch, low, high) if low <= high else None


class Track:
    """What one rank wrote into one file, by the places of its blocks in `file`'s entries."""

    def __init__(self, file: FileIndex) -> None:
        self.file = file
        self.stretches: list[Stretch] = []
        self.looks = 0

    def add(self, entries: NDArray[np.void], places: Integers, read_rows: ReadRows) -> None:
        """Entries and their places, in the order of the file."""
        valid = (entries["rows"] > 0) & (entries["first"] <= entries["last"])
        valid &= (entries["first"] > -MOST_STEPS) & (entries["last"] < MOST_STEPS)
        is_step = entries["kind"] == 0
        chosen = np.flatnonzero(is_step & valid)
        self._add_steps(entries[chosen], places[chosen], read_rows)
        for level in np.unique(entries["kind"][~is_step]).tolist():
            chosen = np.flatnonzero((entries["kind"] == level) & valid)
            self._add_details(level, _spans(entries[chosen], places[chosen]))

    def _add_steps(self, entries: NDArray[np.void], places: Integers, read_rows: ReadRows) -> None:
        spans = _spans(entries, places)
        spans["top"] = spans["last"]
        crowded = entries["rows"] - 1.0 > spans["last"].astype(np.float64) - spans["first"]
        breaks = np.flatnonzero(crowded | (spans["first"] <= np.roll(spans["last"], 1)))
        at = 0
        while at < len(spans):
            self._reconsider(int(spans["first"][at]))
            goes_on = spans["first"][at] > self._top() and not crowded[at]
            stop = at
            if goes_on:
                following = int(np.searchsorted(breaks, at, "right"))
                stop = int(breaks[following]) if following < len(breaks) else len(spans)
                self._append(spans[at:stop])
            else:
                self._look(spans[at], read_rows)
                stop += 1
            at = stop

    def _top(self) -> float:
        """The highest step of the stretch that goes on."""
        return self.stretches[-1].last if self.stretches else -np.inf

    def _reconsider(self, first: int) -> None:
        """What looked resumed at the end of a block was late if the next block goes on from before it."""
        if len(self.stretches) < 2:
            return
        one, other = self.stretches[-2:]
        if len(other.spans(0)) == 1 and len(other.levels) == 1 and first > one.last > other.last:
            one.late += [(int(at), low, high) for at, low, high, _ in other.spans(0).tolist()]
            one.late += other.late
            self.stretches.pop()

    def _append(self, spans: Spans) -> None:
        if not self.stretches:
            self._begin(int(spans["at"][0]))
        self.stretches[-1].add(0, spans)

    def _begin(self, at: int) -> None:
        self.stretches.append(Stretch(at))
        if len(self.stretches) > MOST_STRETCHES:
            del self.stretches[0]

    def _look(self, span: np.void, read_rows: ReadRows) -> None:
        """A block that goes back, or has more rows than steps: are they late, or was the training resumed?"""
        at = int(span["at"])
        steps, measured = self._rows_of(span, read_rows)
        fresh, top = steps[measured], self._top()
        before = np.concatenate([[top], fresh])
        back = np.flatnonzero(fresh <= before[:-1])
        if len(back) and fresh[-1] > before[: back[0] + 1].max():
            back = back[:0]  # numbers that came late from a device, in the midst of others
        again = fresh[back[-1] :] if len(back) else fresh[:0]
        new = fresh[: len(fresh) - len(again)]
        new = new[new > top]
        if len(new):
            self._append(_span(at, int(new.min()), int(new.max())))
        if len(again):
            self._begin(at)
            self._append(_span(at, int(again.min()), int(again.max())))
            top = float(again.min()) - 1
        late = steps[steps <= top]
        if len(late) and self.stretches:
            self.stretches[-1].late.append((at, int(late.min()), int(late.max())))
        elif len(late):  # its steps are lost, the samples are not
            self._append(_span(at, int(late.min()), int(late.max())))

    def _rows_of(self, span: np.void, read_rows: ReadRows) -> tuple[Integers, Flags]:
        self.looks += 1
        if self.looks <= MOST_LOOKS:
            rows = read_rows(np.array([span["at"]]))
            if rows:
                return rows[0]
        bounds = np.array([span["first"], span["last"]])
        return bounds, np.ones(2, np.bool_)

    def _add_details(self, level: int, spans: Spans) -> None:
        starts = np.array([stretch.start for stretch in self.stretches], np.int64)
        owners = np.searchsorted(starts, spans["at"], "right") - 1
        for owner in np.unique(owners[owners >= 0]).tolist():
            stretch, part = self.stretches[owner], spans[owners == owner]
            if owner and level not in stretch.levels:
                # The first one may begin before the stretch does, and tell old and new steps as one.
                stretch.add(level, part[:0])
                part = part[1:]
            steps = stretch.spans(0)
            written = np.searchsorted(steps["at"], part["at"], "right") - 1
            part["top"] = steps["last"][np.maximum(written, 0)]
            part["last"] = np.minimum(part["last"], part["top"])
            known = stretch.spans(level)
            before = int(known["last"][-1]) if len(known) else stretch.first - 1
            part["last"] = np.maximum.accumulate(part["last"])
            lasts = np.concatenate([[before], part["last"][:-1]])
            part["first"] = np.maximum(part["first"], lasts + 1)
            stretch.add(level, part[part["first"] <= part["last"]])


def newest(tracks: Iterable[Track]) -> list[Piece]:
    """The pieces of a rank, by rising steps and without overlaps; of the tracks, later ones are newer."""
    pieces: list[Piece] = []
    for track in reversed(list(tracks)):
        for stretch in reversed(track.stretches):
            pieces += [
                Piece(track, stretch, low, high)
                for low, high in _outside(pieces, stretch.first, stretch.last)
            ]
            pieces.sort(key=lambda piece: piece.first)
    return pieces


def _outside(pieces: Sequence[Piece], low: int, high: int) -> list[tuple[int, int]]:
    """What no piece covers of a range."""
    ranges = []
    for piece in pieces:
        if piece.last < low or piece.first > high:
            continue
        if piece.first > low:
            ranges.append((low, piece.first - 1))
        low = piece.last + 1
    if low <= high:
        ranges.append((low, high))
    return ranges


def _spans(entries: NDArray[np.void], places: Integers) -> Spans:
    spans = np.zeros(len(entries), SPAN)
    spans["at"], spans["first"], spans["last"] = places, entries["first"], entries["last"]
    return spans


def _span(at: int, first: int, last: int) -> Spans:
    return np.array([(at, first, last, last)], SPAN)
