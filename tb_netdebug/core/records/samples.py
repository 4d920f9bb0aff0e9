"""Tensor samples of many steps as columns: the part that step blocks and detail blocks share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.codec import codec
from tb_netdebug.core.records.columns import (
    Integers,
    get_names,
    get_varints,
    get_words,
    put_names,
    put_varints,
    put_words,
    unzigzag,
    zigzag,
)
from tb_netdebug.core.records.errors import DamagedBlock, require
from tb_netdebug.core.records.step import Kind, Sample, Series, Units
from tb_netdebug.core.stats.packed import Summary

# Limits of one block. A reader checks them before it allocates, so that a hostile file cannot exhaust memory.
MOST_SAMPLES = 1 << 20
MOST_ROWS = 1 << 20
MOST_UNITS = 1 << 31
MOST_SUMMARY_BYTES = 256 * 1024 * 1024

# The header of a packed summary in its stored order: six counts, then four doubles (`core.stats.packed`).
HEADER_FIELDS = (
    "count", "nan", "pos_inf", "neg_inf", "zeros", "overflow", "min", "max", "sum", "sum_squares",
)  # fmt: skip
HEADER_TYPE = np.dtype([(name, "<u8" if i < 6 else "<f8") for i, name in enumerate(HEADER_FIELDS)])


@dataclass(frozen=True, slots=True, eq=False)
class SampleTable:
    """All samples of a block, grouped by series; those of `series[i]` are the rows `rows_of(i)`.

    `row_index` holds for each sample the step (or the row of a detail block) that it belongs to, ascending
    within a series. `headers` is a structured array: `headers["min"]` is the column of the minima.
    The sketches stay encoded until `packed` or `summaries` is called.
    """

    series: tuple[Series, ...]
    starts: Integers
    row_index: Integers
    headers: NDArray[np.void]
    order: Integers  # for each sample, in the order of the records, its row in this table
    _sketches: bytes
    _sketch_ends: Integers
    _unit_counts: Integers  # -1 without units
    _unit_bytes: bytes
    _unit_ends: Integers

    def __len__(self) -> int:
        return len(self.row_index)

    def rows_of(self, series: int) -> slice:
        return slice(int(self.starts[series]), int(self.starts[series + 1]))

    @property
    def series_index(self) -> Integers:
        return np.repeat(np.arange(len(self.series)), np.diff(self.starts))

    def units(self, row: int) -> Units | None:
        """Return the bitmap of active channels of one sample, or None."""
        count, end = int(self._unit_counts[row]), int(self._unit_ends[row])
        if count < 0:
            return None
        return Units(count, self._unit_bytes[end - (count + 7) // 8 : end])

    def packed(self, series: int | None = None) -> list[bytes]:
        """Return the packed summaries of one series or of all; raise DamagedBlock if a sketch is damaged."""
        rows = slice(0, len(self)) if series is None else self.rows_of(series)
        ends = self._sketch_ends[rows]
        if not len(ends):
            return []
        begin = int(self._sketch_ends[rows.start - 1]) if rows.start else 0
        lengths = np.diff(ends, prepend=begin).astype("<u4").tobytes()
        # A row is encoded against the one before it in its series; the first of a series stands alone.
        fresh = np.zeros(len(ends), np.uint8)
        fresh[0 if series is not None else self.starts[:-1]] = 1
        stream = self._sketches[begin : int(ends[-1])]
        headers = self.headers[rows].tobytes()
        try:
            return codec.decode(headers, lengths, fresh.tobytes(), stream, MOST_SUMMARY_BYTES)
        except ValueError as error:
            raise DamagedBlock(str(error)) from None

    def summaries(self, series: int | None = None) -> list[Summary]:
        """Return the summaries of one series or of all; raise DamagedBlock if one is damaged."""
        try:
            return [Summary.unpack(packed) for packed in self.packed(series)]
        except ValueError as error:
            raise DamagedBlock(str(error)) from None

    def samples(self) -> list[Sample]:
        """Return all samples in the order of the records."""
        packed, index = self.packed(), self.series_index.tolist()
        return [Sample(self.series[index[at]], packed[at], self.units(at)) for at in self.order.tolist()]


def encode_samples(rows: Sequence[Sequence[Sample]]) -> tuple[pb.SampleColumns, bytes, Integers]:
    """Return the columns, the encoded sketches, and what `SampleTable.order` will be.

    Raises ValueError when a summary is not packed, when a bitmap does not have the length that its units
    need, or when there is too much for one block.
    """
    samples = [sample for row in rows for sample in row]
    if len(samples) > MOST_SAMPLES or len(rows) > MOST_ROWS:
        raise ValueError(f"{len(samples)} samples of {len(rows)} steps are too many for one block")
    if sum(len(sample.summary) for sample in samples) > MOST_SUMMARY_BYTES:
        raise ValueError("the summaries are too large for one block: use several")
    series, index = _series_of(samples)
    order = np.argsort(index, kind="stable")
    grouped = [samples[at] for at in order.tolist()]
    fresh = np.diff(index[order], prepend=-1) != 0
    headers, lengths, sketches = codec.encode([s.summary for s in grouped], fresh.astype(np.uint8).tobytes())
    names = {one.name: None for one in series}
    places = {name: place for place, name in enumerate(names)}
    columns = pb.SampleColumns(
        names=put_names(names),
        kinds=bytes(one.kind for one in series),
        series_names=put_varints([places[one.name] for one in series]),
        row_sizes=put_varints([len(row) for row in rows]),
        # Within a step, samples mostly come in the order of the series, which makes these numbers mostly 0.
        order=put_varints(zigzag(np.diff(index, prepend=-1) - 1)),
        headers=_put_headers(headers),
        sketch_lengths=put_varints(np.frombuffer(lengths, "<u4")),
        # 0 says that there is no bitmap, so every count is stored one higher.
        unit_counts=put_varints([0 if s.units is None else _checked(s.units).count + 1 for s in grouped]),
        units=b"".join(s.units.active for s in grouped if s.units is not None),
    )
    return columns, sketches, _inverse(order)


def decode_samples(columns: pb.SampleColumns, sketches: bytes, *, rows: int, count: int) -> SampleTable:
    """Decode the samples and check every column against `rows` and `count`, which the block states."""
    require(rows <= MOST_ROWS and count <= MOST_SAMPLES, "a block claims too many samples")
    series = _get_series(columns)
    sizes = get_varints(columns.row_sizes, rows, limit=count)
    require(sizes.sum() == count, "the rows of a block have other sizes than their samples")
    gaps = unzigzag(get_varints(columns.order, count, limit=2 * MOST_SAMPLES))
    index = np.cumsum(gaps + 1) - 1
    require(((index >= 0) & (index < len(series))).all(), "a sample belongs to no series")
    sizes_of_series = np.bincount(index, minlength=len(series))
    require(sizes_of_series.all(), "a series has no samples")
    order = np.argsort(index, kind="stable")
    sketch_ends = np.cumsum(get_varints(columns.sketch_lengths, count, limit=len(sketches)))
    require(_last(sketch_ends) == len(sketches), "the sketches have the wrong length")
    unit_counts = get_varints(columns.unit_counts, count, limit=MOST_UNITS) - 1
    unit_ends = np.cumsum((unit_counts + 7) // 8)
    require(_last(unit_ends) == len(columns.units), "the bitmaps of the units have the wrong length")
    return SampleTable(
        series=series,
        starts=np.concatenate([[0], np.cumsum(sizes_of_series)]),
        row_index=np.repeat(np.arange(rows), sizes)[order],
        headers=_get_headers(columns.headers, count),
        order=_inverse(order),
        _sketches=sketches,
        _sketch_ends=sketch_ends,
        _unit_counts=unit_counts,
        _unit_bytes=columns.units,
        _unit_ends=unit_ends,
    )


def _series_of(samples: Sequence[Sample]) -> tuple[list[Series], Integers]:
    """Return the series in the order of their first sample, and for each sample the index of its series."""
    places: dict[Series, int] = {}
    # Samples share a few Series objects, and hashing one by value is slow: look them up by identity first.
    objects = {id(sample.series): sample.series for sample in samples}
    known = {key: places.setdefault(series, len(places)) for key, series in objects.items()}
    return list(places), np.array([known[id(sample.series)] for sample in samples], np.int64)


def _get_series(columns: pb.SampleColumns) -> tuple[Series, ...]:
    names = get_names(columns.names)
    require(len(columns.kinds) <= MOST_SAMPLES, "a block claims too many series")
    places = get_varints(columns.series_names, len(columns.kinds), limit=max(len(names) - 1, 0))
    require(names or not len(places), "a series has no name")
    try:
        return tuple(Series(Kind(kind), names[at]) for kind, at in zip(columns.kinds, places, strict=True))
    except ValueError:
        raise DamagedBlock("a series is of no known kind") from None


def _checked(units: Units) -> Units:
    if len(units.active) != (units.count + 7) // 8 or units.count >= MOST_UNITS:
        raise ValueError(f"{units.count} units have no bitmap of {len(units.active)} bytes")
    return units


def _put_headers(headers: bytes) -> bytes:
    # Column after column: the minima of many samples resemble each other, the fields of one do not.
    table = np.frombuffer(headers, "<u8").reshape(-1, len(HEADER_FIELDS))
    return put_words(table.T.reshape(-1), columns=len(HEADER_FIELDS))


def _get_headers(data: bytes, count: int) -> NDArray[np.void]:
    fields = len(HEADER_FIELDS)
    table = get_words(data, fields * count, columns=fields).reshape(fields, count)
    return np.ascontiguousarray(table.T).view(HEADER_TYPE).reshape(-1)


def _inverse(order: Integers) -> Integers:
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


def _last(ends: Integers) -> int:
    return int(ends[-1]) if len(ends) else 0
