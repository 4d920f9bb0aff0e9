"""The samples of tensors in a range of steps, read from the wanted level; finer levels fill its holes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.reader.block_reader import BlockReader, Blocks
from tb_netdebug.core.eventlog.reader.cells import middle_of
from tb_netdebug.core.eventlog.reader.file_index import FileIndex
from tb_netdebug.core.eventlog.reader.scalar_rows import MOST_HOLES
from tb_netdebug.core.eventlog.reader.stretch import SPAN, Integers, Spans
from tb_netdebug.core.eventlog.reader.timeline import TimelinePiece
from tb_netdebug.core.records.codec import codec

Table = NDArray[np.void]
Key = tuple[int, bytes]
Place = tuple[int, int]
# A series without a sample for this many of its usual spans has ended, or has not begun.
_PATIENCE_SPANS = 32
MOST_SUMMARY_BYTES = 32 << 20


class Owner(NamedTuple):
    """The block that a sample comes from."""

    file: FileIndex
    place: int
    is_detail: bool

    @property
    def home(self) -> tuple[FileIndex, bool]:
        return self.file, self.is_detail


class SampleSource:
    """Reads samples of the kinds in the bit set, of one name or all.

    Samples come as tables (scanner.SAMPLE) by their last step. In them `series` is a number from our
    `series`, and `block` a place in our `blocks`.
    """

    def __init__(self, reader: BlockReader, kinds: int, name: bytes | None = None) -> None:
        self.series: dict[Key, int] = {}
        self.blocks: list[Owner] = []
        self._reader = reader
        self._kinds = kinds
        self._name = name

    @property
    def kinds(self) -> NDArray[np.int64]:
        """The kind of each series."""
        return np.array([kind for kind, _ in self.series], np.int64)

    def samples(self, pieces: Iterable[TimelinePiece], level: int) -> Table:
        parts = [part for piece in pieces for part in self._cover(piece, level, piece.first, piece.last)]
        table = joined(parts)
        lasts = table["last"]
        is_sorted = bool((lasts[1:] >= lasts[:-1]).all())
        return table if is_sorted else table[np.argsort(lasts, kind="stable")]

    def sketched(self, table: Table) -> list[bytes | None]:
        """Return the packed summaries of the samples; None for those whose sketches are damaged."""
        known: dict[tuple[int, int], bytes] = {}
        owners = np.unique(table["block"]).tolist()
        for (file, is_detail), group in groupby(owners, key=lambda owner: self.blocks[owner].home):
            numbers = np.array(list(group), np.int64)
            places = np.array([self.blocks[owner].place for owner in numbers.tolist()], np.int64)
            for blocks in self._reader.read(file, places):
                count = len(blocks.columns)
                rows, _ = self._rows(blocks, is_detail)
                known.update(self._unpacked(blocks, rows, numbers[rows["block"]]))
                numbers = numbers[count:]
        keys = zip(table["block"].tolist(), table["sketch"].tolist(), strict=True)
        return [known.get(key) for key in keys]

    def _unpacked(self, blocks: Blocks, rows: Table, owners: Integers) -> Iterator[tuple[Place, bytes]]:
        """Yield summaries by their block and the place of their sketch.

        Within a series each sketch is encoded against the one before it, so whole series are decoded.
        """
        fresh = np.ones(len(rows), bool)
        fresh[1:] = (np.diff(rows["block"]) != 0) | (np.diff(rows["series"]) != 0)
        starts = np.flatnonzero(fresh)
        if not len(starts):
            return
        sizes = np.add.reduceat(rows["sketch_bytes"], starts, dtype=np.int64)
        parts = zip(
            rows["block"][starts].tolist(), rows["sketch"][starts].tolist(), sizes.tolist(), strict=True
        )
        streams = self._reader.sketches(blocks, parts)
        keys = list(zip(owners.tolist(), rows["sketch"].tolist(), strict=True))
        try:
            yield from zip(keys, decoded(rows, fresh, b"".join(streams)), strict=True)
        except ValueError:
            # Decoding all series in one call is fast; after an error decode them one by one, to lose only the
            # damaged.
            for start, end, stream in zip(starts, [*starts[1:], len(rows)], streams, strict=True):
                try:
                    yield from zip(
                        keys[start:end], decoded(rows[start:end], fresh[start:end], stream), strict=True
                    )
                except ValueError:
                    self._reader.note_damage(blocks, [int(rows["block"][start])])

    def _cover(self, piece: TimelinePiece, level: int, low: int, high: int) -> Iterator[Table]:
        table = self._read(piece, self.spans(piece, level, low, high), level > 0)
        table = only(table, (table["first"] >= low) & (table["last"] <= high))
        if level == 0:
            yield newest(table)
            return
        yield table
        if not len(table):
            yield from self._cover(piece, level - 1, low, high)
            return
        # The level may lack samples at the ends of the range: finer levels have those before and behind its
        # own.
        edges = _Edges.of(table)
        if low <= edges.left:
            for part in self._cover(piece, level - 1, low, min(edges.left, high)):
                yield part[part["last"] < edges.start_of(part["series"])]
        if piece.track.has_holes:
            for start, end in holes_of(table):
                yield from self._cover(piece, level - 1, start, end)
        if edges.right <= high:
            for part in self._cover(piece, level - 1, max(edges.right, low), high):
                yield part[part["first"] > edges.end_of(part["series"])]

    def spans(self, piece: TimelinePiece, level: int, low: int, high: int) -> Spans:
        """Return the blocks with samples in a range of steps.

        Of a level of detail also the block behind the range: its samples may be older than its rows.
        """
        stretch, entries = piece.stretch, piece.track.file.entries.view
        if level == 0:
            late = [
                (at, first, last, last)
                for at, first, last in piece.track.late_of(stretch)
                if first <= high and last >= low
            ]
            spans = np.concatenate([stretch.blocks(0, low, high), np.array(late, SPAN)])
            spans = spans[np.unique(spans["at"], return_index=True)[1]]
            with_samples: Spans = spans[entries["samples"][spans["at"]] > 0]
            return with_samples
        spans = stretch.spans(level)
        spans = spans[entries["samples"][spans["at"]] > 0]
        start = int(np.searchsorted(spans["last"], low, "left"))
        stop = int(np.searchsorted(spans["first"], high, "right")) + 1
        chosen: Spans = spans[start:stop]
        return chosen

    def _read(self, piece: TimelinePiece, spans: Spans, is_detail: bool) -> Table:
        file, tops = piece.track.file, spans["top"]
        parts = []
        for blocks in self._reader.read(file, spans["at"]):
            parts.append(self._batch(blocks, tops, is_detail))
            tops = tops[len(blocks.columns) :]
        return joined(parts)

    def _batch(self, blocks: Blocks, tops: Integers, is_detail: bool) -> Table:
        table, series = self._rows(blocks, is_detail)
        table = table.copy()
        tops = tops[table["block"]]
        table["series"] = self._numbers(series)[table["series"]]
        table["block"] += len(self.blocks)
        self.blocks += [Owner(blocks.file, place, is_detail) for place in blocks.places.tolist()]
        first, last = np.minimum(table["first"], table["last"]), np.maximum(table["first"], table["last"])
        table["first"], table["last"] = first, last
        # A sample of steps beyond what was recorded by then is from before the training resumed at an earlier
        # step.
        return only(table, last <= tops) if is_detail else table

    def _rows(self, blocks: Blocks, is_detail: bool) -> tuple[Table, list[Key]]:
        data, series, damaged = scanner.native.sample_rows(
            blocks.columns, blocks.numbers("rows"), blocks.numbers("samples"), blocks.numbers("sketches"),
            is_detail, self._kinds, self._name,
        )  # fmt: skip
        self._reader.note_damage(blocks, damaged)
        return np.frombuffer(data, scanner.SAMPLE), series

    def _numbers(self, series: Sequence[Key]) -> NDArray[np.uint32]:
        numbers = [self.series.setdefault(key, len(self.series)) for key in series]
        return np.array(numbers, np.uint32)


def holes_of(table: Table) -> list[tuple[int, int]]:
    """Return ranges without samples that are longer than a sample usually spans: samples were lost there."""
    order = np.argsort(table["first"], kind="stable")
    first, reached = table["first"][order], np.maximum.accumulate(table["last"][order])
    gaps = first[1:] - reached[:-1]
    at = np.flatnonzero(gaps > middle_of(table["last"] - table["first"]) + 1)[:MOST_HOLES]
    return list(zip((reached[at] + 1).tolist(), (first[at + 1] - 1).tolist(), strict=True))


def decoded(rows: Table, fresh: NDArray[np.bool_], stream: bytes) -> list[bytes]:
    """Return the packed summaries. Raises ValueError if the sketches are damaged."""
    sizes = rows["sketch_bytes"].astype("<u4").tobytes()
    flags = fresh.astype(np.uint8).tobytes()
    return codec.decode(rows["header"].tobytes(), sizes, flags, stream, MOST_SUMMARY_BYTES)


def joined(parts: Sequence[Table]) -> Table:
    """Concatenate the tables; a single one is returned without a copy."""
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, scanner.SAMPLE), *parts])


def only(table: Table, chosen: NDArray[np.bool_]) -> Table:
    """Return the chosen rows, without a copy if all are."""
    part: Table = table if chosen.all() else table[chosen]
    return part


def newest(table: Table) -> Table:
    """Return the last written of several samples of a tensor in one step."""
    order = np.lexsort((table["last"], table["series"]))  # a stable sort: the last written comes last
    series, last = table["series"][order], table["last"][order]
    again = (series[1:] == series[:-1]) & (last[1:] == last[:-1])
    if not again.any():
        return table
    single: Table = table[np.sort(order[np.append(~again, True)])]
    return single


@dataclass(frozen=True, slots=True, eq=False)
class _Edges:
    """Where the samples of a level begin and end, for each series and for most of them.

    The finer level is read outside of `left` and `right` only. Series that begin much later or end much
    earlier than the others do not count for these two, or each would cost a full read.
    """

    starts: Integers
    ends: Integers
    left: int
    right: int

    @classmethod
    def of(cls, table: Table) -> _Edges:
        count = int(table["series"].max()) + 1
        starts = np.full(count, np.iinfo(np.int64).max)
        ends = np.full(count, np.iinfo(np.int64).min)
        np.minimum.at(starts, table["series"], table["first"])
        np.maximum.at(ends, table["series"], table["last"])
        patience = _PATIENCE_SPANS * (middle_of(table["last"] - table["first"]) + 1)
        begun = starts[starts <= starts.min() + patience]
        going = ends[ends >= ends.max() - patience]
        return cls(starts, ends, int(begun.max()) - 1, int(going.min()) + 1)

    def start_of(self, series: NDArray[np.uint32]) -> Integers:
        return _at(self.starts, series, np.iinfo(np.int64).max)

    def end_of(self, series: NDArray[np.uint32]) -> Integers:
        return _at(self.ends, series, np.iinfo(np.int64).min)


def _at(values: Integers, places: NDArray[np.uint32], beyond: int) -> Integers:
    inside = places < len(values)
    return np.where(inside, values[np.where(inside, places, 0)], beyond)
