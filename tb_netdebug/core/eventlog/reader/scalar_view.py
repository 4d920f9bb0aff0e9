"""Scalars over a range of steps, in about as many points as a chart shows. Used by `recorded_scalars.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tb_netdebug.core.eventlog.reader.cells import cell_width, cells_of
from tb_netdebug.core.eventlog.reader.scalar_rows import Rows, ScalarSource
from tb_netdebug.core.eventlog.reader.timeline import TimelinePiece
from tb_netdebug.core.eventlog.reader.views import Doubles, ScalarColumns

BATCH_SIZE = b"batch_size"
# Reading more blocks than this takes too long for an interactive view; a coarser level has to do.
MOST_BLOCKS = 3000
# The coarser level must still have an eighth of the wanted points.
_LEAST_SHARE = 8


def level_for(pieces: Sequence[TimelinePiece], points: int, levels: Iterable[int]) -> int:
    """Return the coarsest level with at least the wanted rows, or a coarser one where that costs too much."""
    coarser = 0
    for level in sorted({0, *levels}, reverse=True):
        rows, blocks = amount(pieces, level)
        if rows >= points or level == 0:
            too_many = (
                blocks > MOST_BLOCKS and coarser and amount(pieces, coarser)[0] * _LEAST_SHARE >= points
            )
            return coarser if too_many else level
        coarser = level
    return 0


def amount(pieces: Sequence[TimelinePiece], level: int) -> tuple[float, int]:
    """Return about how many rows of a level there are, and in how many blocks."""
    rows, blocks = 0.0, 0
    for piece in pieces:
        spans = piece.stretch.blocks(level, piece.first, piece.last)
        if not len(spans):
            continue
        low, high = np.maximum(spans["first"], piece.first), np.minimum(spans["last"], piece.last)
        share = (high - low + 1) / (spans["last"] - spans["first"] + 1)
        rows += float((piece.track.file.entries.view["rows"][spans["at"]] * share).sum())
        blocks += len(spans)
    return rows, blocks


def scalar_columns(
    source: ScalarSource, pieces: Sequence[TimelinePiece], level: int, points: int, before: float
) -> list[ScalarColumns]:
    """Return columns for each name of the source; `before` is the number of samples before the pieces."""
    rows = source.rows(pieces, level)
    batches = samples_until(rows, source.names.index(BATCH_SIZE), before)
    return [columns_of(one_of(rows, at), points, batches) for at in range(len(source.names))]


def samples_until(rows: Rows, at: int, before: float) -> tuple[Doubles, Doubles] | None:
    """Return the steps with a batch size, and the number of training samples up to each of them."""
    one = one_of(rows, at)
    if not len(one):
        return None
    with np.errstate(over="ignore"):
        return one.last.astype(np.float64), before + np.cumsum(one.sum[0])


def one_of(rows: Rows, at: int) -> Rows:
    """Return the rows of one name where it was measured; of several recordings of a step the newest."""
    chosen = rows.where(np.flatnonzero(rows.present[at]))
    single = Rows(
        chosen.first, chosen.last, chosen.time, chosen.last_time, chosen.steps,
        *(table[at : at + 1] for table in (
            chosen.present, chosen.count, chosen.bad, chosen.sum, chosen.min, chosen.max, chosen.end
        )),
    )  # fmt: skip
    again = single.first[1:] == single.first[:-1]
    return single.where(np.append(~again, True)) if again.any() else single


def columns_of(one: Rows, points: int, batches: tuple[Doubles, Doubles] | None) -> ScalarColumns:
    if len(one) > points:
        one = merged(one, cell_width(int(one.first[0]), int(one.first[-1]), points))
    finite = one.count[0] - one.bad[0]
    with np.errstate(all="ignore"):
        mean = np.where(finite > 0, one.sum[0] / finite, np.nan)
    return ScalarColumns(
        step=one.first.astype(np.float64),
        last=one.last.astype(np.float64),
        time=one.time.astype(np.float64),
        samples=samples_at(one.last.astype(np.float64), batches),
        mean=mean,
        min=one.min[0],
        max=one.max[0],
        bad=one.bad[0],
        end=one.end[0],
        count=one.count[0],
    )


def samples_at(steps: Doubles, batches: tuple[Doubles, Doubles] | None) -> Doubles:
    if batches is None:
        return np.full(len(steps), np.nan)
    known, totals = batches
    places = np.searchsorted(known, steps, "right") - 1
    return np.where(places >= 0, totals[np.maximum(places, 0)], np.nan)


def merged(one: Rows, width: int) -> Rows:
    """Merge the rows whose first steps lie in the same cell."""
    cells, places = cells_of(one.first, width)
    starts = np.searchsorted(places, np.arange(len(cells)))
    ends = np.append(starts[1:], len(places)) - 1

    def reduced(operation: np.ufunc, table: Doubles) -> Doubles:
        with np.errstate(over="ignore"):
            reduced: Doubles = operation.reduceat(table, starts, axis=-1)
        return reduced

    return Rows(
        first=one.first[starts],
        last=one.last[ends],
        time=one.time[starts],
        last_time=one.last_time[ends],
        steps=np.add.reduceat(one.steps, starts),
        present=one.present[:, starts],
        count=reduced(np.add, one.count),
        bad=reduced(np.add, one.bad),
        sum=reduced(np.add, one.sum),
        min=reduced(np.fmin, one.min),
        max=reduced(np.fmax, one.max),
        end=one.end[:, ends],
    )
