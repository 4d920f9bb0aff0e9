"""Maps the steps of one rank to the blocks of a file, as stretches of rising steps. Used by `recording.py`.

A resumed run goes back some steps and records them again. There a new stretch begins, and the newest
recording of a step counts. The flight recorder's late samples belong to steps that are recorded already; they
begin no stretch. A block that goes back to steps that no block has recorded has only changed its place in the
file: it is a stray, and the stretch goes on as if it were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.file_index import FileIndex
from tb_netdebug.core.eventlog.reader.misplaced_blocks import MisplacedBlocks
from tb_netdebug.core.eventlog.reader.stretch import Integers, Spans, Stretch, overlaid, span_of, spans_of

Flags = NDArray[np.bool_]
# Returns for the blocks at these places the steps of their rows, and which rows are more than late samples.
ReadRows = Callable[[Integers], Sequence[tuple[Integers, Flags]]]

# A hostile file may go back in every block. So old stretches are folded into one, without levels of detail,
# and only so many blocks are decoded to tell late samples from a resumed run.
MOST_STRETCHES = 512
MOST_LOOKS = 2000
# Sums and differences of two steps must fit into 64 bits.
MOST_STEPS = 1 << 60


@dataclass(frozen=True, slots=True)
class TimelinePiece:
    """A range of steps, and the stretch that has the newest recording of it."""

    track: Track
    stretch: Stretch
    first: int
    last: int

    def part(self, first: int | None, last: int | None) -> TimelinePiece | None:
        low = self.first if first is None else max(first, self.first)
        high = self.last if last is None else min(last, self.last)
        return TimelinePiece(self.track, self.stretch, low, high) if low <= high else None


class Track:
    """The blocks that one rank wrote into one file, as places in `file`'s entries."""

    def __init__(self, file: FileIndex) -> None:
        self.file = file
        self.stretches: list[Stretch] = []
        self.misplaced = MisplacedBlocks()
        self.looks = 0
        self._has_lost_details = False

    @property
    def has_holes(self) -> bool:
        """Whether a level of detail may lack some of the recorded steps."""
        return self.file.gap_count > 0 or self._has_lost_details or len(self.misplaced) > 0

    @property
    def layers(self) -> list[Stretch]:
        """All stretches, the newest first."""
        return [*reversed(self.stretches), *self.misplaced.stretches]

    def late_of(self, stretch: Stretch) -> Iterator[tuple[int, int, int]]:
        """Yield the blocks with late samples of a stretch; with strays, those of all stretches."""
        for one in self.layers if len(self.misplaced) else (stretch,):
            yield from one.late

    def runs_of(self, stretch: Stretch) -> list[tuple[int, int]]:
        """Return the ranges of steps that the stretch covers without a break between blocks."""
        spans = stretch.spans(0)
        ends = np.flatnonzero(spans["first"][1:] - spans["last"][:-1] > self._spacing())
        starts = spans["first"][np.concatenate([[0], ends + 1])].tolist()
        return list(zip(starts, spans["last"][np.append(ends, len(spans) - 1)].tolist(), strict=True))

    def _spacing(self) -> int:
        """Return how far apart two blocks may be with nothing lost: steps may be numbered in tens."""
        if len(self.misplaced):
            return 1
        spans = max(self.stretches, key=lambda stretch: len(stretch.spans(0))).spans(0)
        rows = self.file.entries.view["rows"][spans["at"]].astype(np.int64)
        wide = rows > 1
        if wide.any():
            steps = (spans["last"] - spans["first"])[wide] / (rows[wide] - 1)
        else:
            steps = np.diff(spans["first"])
        usual = float(np.median(steps)) if len(steps) else 1.0
        return 1 if usual <= 1 else int(2 * usual)

    def add(self, entries: NDArray[np.void], places: Integers, read_rows: ReadRows) -> None:
        """Add entries and their places, in the order of the file."""
        valid = (entries["rows"] > 0) & (entries["first"] <= entries["last"])
        valid &= (entries["first"] > -MOST_STEPS) & (entries["last"] < MOST_STEPS)
        is_step = entries["kind"] == 0
        chosen = np.flatnonzero(is_step & valid)
        self._add_steps(entries[chosen], places[chosen], read_rows)
        for level in np.unique(entries["kind"][~is_step]).tolist():
            chosen = np.flatnonzero((entries["kind"] == level) & valid)
            self._add_details(level, spans_of(entries[chosen], places[chosen]))

    def _add_steps(self, entries: NDArray[np.void], places: Integers, read_rows: ReadRows) -> None:
        spans = spans_of(entries, places)
        spans["top"] = spans["last"]
        # A crowded block has more rows than steps, so some of them are late samples or recorded again.
        crowded = entries["rows"] - 1.0 > spans["last"].astype(np.float64) - spans["first"]
        breaks = np.flatnonzero(crowded | (spans["first"] <= np.roll(spans["last"], 1)))
        at = 0
        while at < len(spans):
            self._reconsider(int(spans["first"][at]))
            goes_on = spans["first"][at] > self._top() and not crowded[at]
            stop = at
            if goes_on:
                # Append all blocks up to the next break at once: most files have none.
                following = int(np.searchsorted(breaks, at, "right"))
                stop = int(breaks[following]) if following < len(breaks) else len(spans)
                self._append(spans[at:stop])
            else:
                self._look(spans[at], read_rows)
                stop += 1
            at = stop

    def _top(self) -> float:
        """Return the highest step of the current stretch."""
        return self.stretches[-1].last if self.stretches else -np.inf

    def _reconsider(self, first: int) -> None:
        """Undo the newest stretch if the next block, from step `first` on, shows it to be late samples.

        A single block that went back looks like a resumed run. If the next block goes on after the stretch
        before it, that block held nothing but late samples.
        """
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
        self.misplaced.note(spans)

    def _begin(self, at: int) -> None:
        self.stretches.append(Stretch(at))
        if len(self.stretches) > MOST_STRETCHES:
            self._fold()

    def _fold(self) -> None:
        """Fold the older half of the stretches into one; only their levels of detail are lost."""
        old = self.stretches[: MOST_STRETCHES // 2]
        layers = [*reversed(old)]
        late = [block for stretch in old for block in stretch.late]
        folded = Stretch(old[0].start, late=late, is_cut=True)
        for first, last, at in overlaid([self.runs_of(layer) for layer in layers]):
            spans = layers[at].blocks(0, first, last).copy()
            # A newer stretch may have recorded a part of these blocks again.
            spans["first"] = np.maximum(spans["first"], first)
            spans["last"] = spans["top"] = np.minimum(spans["last"], last)
            folded.add(0, spans)
        self.stretches[: len(old)] = [folded]
        self._has_lost_details = True

    def _look(self, span: np.void, read_rows: ReadRows) -> None:
        """Decode a block that goes back, or has more rows than steps: late samples, or a resumed run?"""
        at = int(span["at"])
        steps, measured = self._rows_of(span, read_rows)
        fresh, top = steps[measured], self._top()
        before = np.concatenate([[top], fresh])
        # From the last jump back on, measured rows (`again`) are those of a resumed run, or a stray; the rows
        # before them continue the stretch.
        back = np.flatnonzero(fresh <= before[:-1])
        if len(back) and fresh[-1] > before[: back[0] + 1].max():
            back = back[:0]  # values that came late from a device, among others
        again = fresh[back[-1] :] if len(back) else fresh[:0]
        new = fresh[: len(fresh) - len(again)]
        new = new[new > top]
        if len(new):
            self._append(span_of(at, int(new.min()), int(new.max())))
        if len(again) and not len(new) and self._is_stray(again):
            self.misplaced.add(span_of(at, int(again.min()), int(again.max())))
            top = float(again.min()) - 1
        elif len(again):
            self._begin(at)
            self._append(span_of(at, int(again.min()), int(again.max())))
            top = float(again.min()) - 1
        late = steps[steps <= top]
        if len(late) and self.stretches:
            self.stretches[-1].late.append((at, int(late.min()), int(late.max())))
        elif len(late):  # the steps themselves were lost, but not their samples
            self._append(span_of(at, int(late.min()), int(late.max())))

    def _is_stray(self, steps: Integers) -> bool:
        """Return whether no block has recorded anything in the range of these rising steps."""
        is_rising = bool((np.diff(steps) > 0).all())
        return is_rising and not self.misplaced.is_known(self.stretches, int(steps[0]), int(steps[-1]))

    def _rows_of(self, span: np.void, read_rows: ReadRows) -> tuple[Integers, Flags]:
        self.looks += 1
        if self.looks <= MOST_LOOKS:
            rows = read_rows(np.array([span["at"]]))
            if rows:
                return rows[0]
        # Damaged, or beyond MOST_LOOKS: the envelope has to do, as if both steps had been measured.
        bounds = np.array([span["first"], span["last"]])
        return bounds, np.ones(2, np.bool_)

    def _add_details(self, level: int, spans: Spans) -> None:
        starts = np.array([stretch.start for stretch in self.stretches], np.int64)
        owners = np.searchsorted(starts, spans["at"], "right") - 1
        for owner in np.unique(owners[owners >= 0]).tolist():
            stretch, part = self.stretches[owner], spans[owners == owner]
            if owner and level not in stretch.levels:
                # A stretch's first detail block may begin before the stretch does, and mix old and new steps.
                stretch.add(level, part[:0])
                part = part[1:]
            steps = stretch.spans(0)
            written = np.searchsorted(steps["at"], part["at"], "right") - 1
            # Details cannot cover steps beyond the last block written before them.
            part["top"] = steps["last"][np.maximum(written, 0)]
            self._has_lost_details |= bool((part["last"] > part["top"]).any())
            part["last"] = np.minimum(part["last"], part["top"])
            known = stretch.spans(level)
            before = int(known["last"][-1]) if len(known) else stretch.first - 1
            # Cut each block to the steps behind those of the blocks before it, so that spans never overlap.
            part["last"] = np.maximum.accumulate(part["last"])
            lasts = np.concatenate([[before], part["last"][:-1]])
            part["first"] = np.maximum(part["first"], lasts + 1)
            is_left = part["first"] <= part["last"]
            self._has_lost_details |= not is_left.all()
            stretch.add(level, part[is_left])


def newest(tracks: Iterable[Track]) -> list[TimelinePiece]:
    """Return the pieces of a rank, by rising step and without overlaps; later tracks are newer."""
    layers = [(track, stretch) for track in reversed(list(tracks)) for stretch in track.layers]
    # Most runs have a single stretch, and need no overlay.
    if len(layers) == 1:
        ((track, stretch),) = layers
        return [TimelinePiece(track, stretch, stretch.first, stretch.last)]
    found = overlaid([track.runs_of(stretch) for track, stretch in layers])
    return [TimelinePiece(*layers[at], first, last) for first, last, at in found]
