"""The rows of scalars in a range of steps, read from the wanted level; finer levels fill its holes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.reader.block_reader import BlockReader, Blocks
from tb_netdebug.core.eventlog.reader.cells import middle_of
from tb_netdebug.core.eventlog.reader.stretch import Integers, Spans
from tb_netdebug.core.eventlog.reader.timeline import TimelinePiece

Table = NDArray[Any]
# Filling a hole from finer levels takes time. Only a file made on purpose has more holes than this.
MOST_HOLES = 512


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one or more steps, by rising step.

    The first five are columns, the others tables with a line for each name. Where a name is not `present`,
    its numbers mean nothing.
    """

    first: Integers
    last: Integers
    time: Table
    last_time: Table
    steps: Integers
    present: Table
    count: Table
    bad: Table
    sum: Table
    min: Table
    max: Table
    end: Table

    def where(self, chosen: Any) -> Rows:
        return Rows(*(getattr(self, field.name)[..., chosen] for field in fields(self)))

    def __len__(self) -> int:
        return len(self.first)


def joined(parts: Iterable[Rows], names: int) -> Rows:
    """Concatenate all rows, one part after the other."""
    parts = [_empty(names), *parts]
    return Rows(*(np.concatenate([getattr(p, f.name) for p in parts], axis=-1) for f in fields(Rows)))


def _empty(names: int) -> Rows:
    line, table = np.empty(0, np.int64), np.empty((names, 0))
    doubles = [table] * 6
    return Rows(line, line, np.empty(0), np.empty(0), line, np.empty((names, 0), np.bool_), *doubles)


class ScalarSource:
    """Reads rows of the given names, which are bytes as they are stored."""

    def __init__(self, reader: BlockReader, names: Sequence[bytes]) -> None:
        self._reader = reader
        self.names = list(names)

    def rows(self, pieces: Iterable[TimelinePiece], level: int) -> Rows:
        """Return the rows by rising step; rows of the same step keep the order in which they were written."""
        parts = [rows for piece in pieces for rows in self._cover(piece, level, piece.first, piece.last)]
        whole = joined(parts, len(self.names))
        if (np.diff(whole.first) >= 0).all():
            return whole
        return whole.where(np.argsort(whole.first, kind="stable"))

    def _cover(self, piece: TimelinePiece, level: int, low: int, high: int) -> Iterator[Rows]:
        """Yield the rows from `low` to `high`, in no particular order."""
        spans = piece.stretch.blocks(level, low, high)
        rows = joined(self._read(piece, level, spans), len(self.names))
        # The steps of rows that are not trusted are read from the finer level instead.
        trusted = trusted_rows(rows) if level else np.ones(len(rows), bool)
        has_holes = piece.track.has_holes or not trusted.all()
        rows = rows.where(trusted & (rows.first >= low) & (rows.last <= high))
        yield rows
        if level:
            for first, last in uncovered(rows, low, high, has_holes):
                yield from self._cover(piece, level - 1, first, last)

    def _read(self, piece: TimelinePiece, level: int, spans: Spans) -> Iterator[Rows]:
        file = piece.track.file
        if level:
            yield from map(self._details, self._reader.read(file, spans["at"]))
        elif not piece.stretch.is_cut:
            yield from map(self._steps, self._reader.read(file, spans["at"]))
        else:
            for at in range(len(spans)):
                first, last = spans["first"][at], spans["last"][at]
                for rows in map(self._steps, self._reader.read(file, spans["at"][at : at + 1])):
                    yield rows.where((rows.first >= first) & (rows.last <= last))

    def _steps(self, blocks: Blocks) -> Rows:
        found = scanner.native.step_rows(blocks.columns, blocks.numbers("rows"), self.names)
        _, steps, times, _, values, present, damaged = found
        self._reader.note_damage(blocks, damaged)
        step, time = np.frombuffer(steps, np.int64), np.frombuffer(times, np.float64)
        value = np.frombuffer(values, np.float64).reshape(len(self.names), len(step))
        there = np.frombuffer(present, np.bool_).reshape(value.shape)
        finite = np.isfinite(value)
        known, bad = np.where(finite, value, np.nan), (there & ~finite).astype(np.float64)
        ones = np.ones(len(step), np.int64)
        sums = np.where(finite, value, 0.0)
        return Rows(
            step, step, time, time, ones, there, there.astype(np.float64), bad, sums, known, known, value
        )

    def _details(self, blocks: Blocks) -> Rows:
        found = scanner.native.detail_rows(blocks.columns, blocks.numbers("rows"), self.names)
        owners, frame, ranges, present, damaged = found
        self._reader.note_damage(blocks, damaged)
        count = len(owners) // 4
        first, last, time, last_time, steps = np.frombuffer(frame, np.int64).reshape(5, count)
        table = np.frombuffer(ranges, np.int64).reshape(len(self.names), 9, count)
        doubles = table.view(np.float64)
        there = np.frombuffer(present, np.bool_).reshape(len(self.names), count)
        bad = table[:, 1:4].sum(axis=1).astype(np.float64)
        return Rows(
            first, last, time.view(np.float64), last_time.view(np.float64), steps, there,
            table[:, 0].astype(np.float64), bad, doubles[:, 6], doubles[:, 4], doubles[:, 5], doubles[:, 8],
        )  # fmt: skip


def trusted_rows(rows: Rows) -> NDArray[np.bool_]:
    """Return which rows cover just the steps from their first to their last one.

    Where the flight recorder wrote late samples of earlier steps, a detail row may begin or end with one of
    those.
    """
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(rows.last)[:-1]])[: len(rows)]
    is_roomy = rows.steps - 1.0 <= rows.last.astype(np.float64) - rows.first
    trusted: NDArray[np.bool_] = (rows.first <= rows.last) & (rows.first > before) & is_roomy
    return trusted


def uncovered(rows: Rows, low: int, high: int, has_holes: bool) -> Iterator[tuple[int, int]]:
    """Yield the ranges of steps that no row covers; between rows only if `has_holes`."""
    if not len(rows):
        yield low, high
        return
    first, last = int(rows.first[0]), int(rows.last[-1])
    if low < first:
        yield low, first - 1
    if has_holes and len(rows) > 1:
        gaps = rows.first[1:] - rows.last[:-1]
        # Where steps are numbered in tens, all rows are some steps apart: only an unusual gap is a hole.
        holes = np.flatnonzero(gaps > middle_of(gaps))[:MOST_HOLES]
        for start, end in zip(rows.last[holes].tolist(), rows.first[holes + 1].tolist(), strict=True):
            yield start + 1, end - 1
    if last < high:
        yield last + 1, high
