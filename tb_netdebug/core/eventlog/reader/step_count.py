"""Counts the recorded steps of a run and finds those missing between blocks. Called by `recording.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.block_order import missing_between
from tb_netdebug.core.eventlog.reader.file_index import FileIndex
from tb_netdebug.core.eventlog.reader.stretch import Integers
from tb_netdebug.core.eventlog.reader.timeline import Flags, TimelinePiece, Track

# At most this many blocks are decoded for an exact count: those with late samples, and those recorded again
# in part.
MOST_LOOKS = 256

ReadRows = Callable[[FileIndex, Integers], Sequence[tuple[Integers, Flags]]]


def steps_of(pieces: Sequence[TimelinePiece], read_rows: ReadRows) -> int:
    """Return the number of steps, each counted once; exact as long as few blocks have to be decoded."""
    total, looks = 0.0, MOST_LOOKS
    for piece in pieces:
        spans = piece.stretch.blocks(0, piece.first, piece.last)
        entries = piece.track.file.entries.view[spans["at"]]
        low, high = np.maximum(spans["first"], piece.first), np.minimum(spans["last"], piece.last)
        is_whole = (low == entries["first"]) & (high == entries["last"])
        counted = np.where(is_dense(entries), high - low + 1, np.where(is_whole, entries["rows"], 0))
        # The envelope of these blocks does not say how many of their rows are steps in the range.
        unclear = np.flatnonzero(~is_dense(entries) & ~(is_whole & is_roomy(entries)))
        total += float(np.delete(counted, unclear).sum())
        for at in unclear[:looks].tolist():
            total += counted_in(piece, spans[at], int(low[at]), int(high[at]), read_rows)
        rest, looks = unclear[looks:], max(0, looks - len(unclear))
        # Beyond MOST_LOOKS the rows are taken as evenly spread over the steps of their block.
        share = (high - low + 1) / (spans["last"] - spans["first"] + 1)
        total += float((entries["rows"] * share)[rest].sum())
    return round(total)


def is_dense(entries: NDArray[np.void]) -> Flags:
    """Return which blocks have a row for each step from the first to the last one."""
    dense: Flags = entries["rows"] == entries["last"] - entries["first"] + 1
    return dense


def is_roomy(entries: NDArray[np.void]) -> Flags:
    """Return which blocks have at most one row a step; in the others some step has several rows."""
    roomy: Flags = entries["rows"] <= entries["last"] - entries["first"] + 1
    return roomy


def counted_in(piece: TimelinePiece, span: np.void, low: int, high: int, read_rows: ReadRows) -> int:
    """Return how many steps of a block in the range hold more than a late sample."""
    count = 0
    for steps, measured in read_rows(piece.track.file, np.array([span["at"]])):
        known = steps[measured] if measured.any() else steps
        count += len(np.unique(known[(known >= low) & (known <= high)]))
    return count


def missing_in(track: Track) -> Iterator[tuple[int, int, int]]:
    """Yield ranges of steps that no block has between two blocks, and the file offset where they would be.

    Ranges around damaged bytes are left out: the damage itself is reported.
    """
    spans = np.concatenate([layer.spans(0) for layer in track.layers])
    entries = track.file.entries.view[spans["at"]]
    rows = entries["rows"].astype(np.int64)
    damaged = [gap.offset for gap in track.file.lost]
    for first, last, *places in missing_between(spans["first"], spans["last"], rows):
        before, behind = sorted(entries["offset"][places].tolist())
        if not any(before < offset < behind for offset in damaged):
            yield first, last, int(entries["offset"][places[1]])
