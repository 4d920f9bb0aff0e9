"""Turns samples of tensors into heat maps, bands of quantiles and statistics, for `recorded_views.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.cells import cell_width, cells_of
from tb_netdebug.core.eventlog.reader.statistics import EXACT, FROM_SKETCH, Moments
from tb_netdebug.core.eventlog.reader.stretch import Integers
from tb_netdebug.core.eventlog.reader.tally import Tally
from tb_netdebug.core.eventlog.reader.timeline import TimelinePiece
from tb_netdebug.core.eventlog.reader.views import Doubles

Table = NDArray[np.void]


def level_for(pieces: Sequence[TimelinePiece], columns: int, levels: Iterable[int], series: int) -> int:
    """Return the coarsest level with samples at half as many steps as there are columns, or more."""
    for level in sorted({0, *levels}, reverse=True):
        if level == 0 or positions(pieces, level, series) * 2 >= columns:
            return level
    return 0


def positions(pieces: Sequence[TimelinePiece], level: int, series: int) -> float:
    """Return about how many samples of a level each tensor has."""
    samples = 0
    for piece in pieces:
        spans = piece.stretch.blocks(level, piece.first, piece.last)
        samples += int(piece.track.file.entries.view["samples"][spans["at"]].sum())
    return samples / max(series, 1)


class SampleColumns:
    """Samples placed in columns over a range of steps; `of[i]` is the column of sample i.

    Each sampled step has a column of its own if there is room for all of them.
    """

    def __init__(self, table: Table, columns: int) -> None:
        middle = table["first"] + (table["last"] - table["first"]) // 2
        self.of: Integers = np.empty(0, np.int64)
        self.first: Integers = np.empty(0, np.int64)
        self.last: Integers = np.empty(0, np.int64)
        if not len(table):
            return
        cells, self.of = np.unique(table["last"], return_inverse=True)
        if len(cells) > columns:
            cells, self.of = cells_of(middle, cell_width(int(middle.min()), int(middle.max()), columns))
        self.first = np.full(len(cells), np.iinfo(np.int64).max)
        self.last = np.full(len(cells), np.iinfo(np.int64).min)
        np.minimum.at(self.first, self.of, table["first"])
        np.maximum.at(self.last, self.of, table["last"])

    def __len__(self) -> int:
        return len(self.first)


def heat(table: Table, columns: Integers, lines: Integers, shape: tuple[int, int], statistic: str) -> Doubles:
    """Return one statistic as a table with a line for each tensor; samples lie at their lines and columns."""
    moments = Moments.of(table, lines * shape[1] + columns, shape[0] * shape[1])
    return moments.statistic(statistic).reshape(shape)


def statistics(table: Table, places: Integers, count: int, tally: Tally | None) -> dict[str, Doubles]:
    """Return all statistics of the samples at their places; without a tally those that need no sketch."""
    moments = Moments.of(table, places, count)
    found = {name: moments.statistic(name) for name in (*EXACT, "inactive_units")}
    if tally is not None:
        shares = np.array(list(FROM_SKETCH.values()))
        values = tally.quantiles(shares, moments.min, moments.max)
        found.update(zip(FROM_SKETCH, values.T, strict=True))
    return found
