"""Decodes many unpacked blocks into columns at once, in Python: the specification of `native/columns.h`.

Chosen by `scanner.py`. `blocks` are messages StepColumns or DetailColumns; `rows` and `samples` are the
counts from their envelopes. A damaged block contributes nothing, and its place is listed in `damaged`. Names
are bytes as stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.wire import Malformed, byte_fields
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import get_presence
from tb_netdebug.core.records.columns import get_deltas, get_names, get_varints, get_words
from tb_netdebug.core.records.detail_block import MOST_COUNT
from tb_netdebug.core.records.errors import DamagedBlock, require
from tb_netdebug.core.records.samples import HEADER_TYPE, MOST_ROWS, SampleTable, decode_samples
from tb_netdebug.core.records.step import Kind
from tb_netdebug.core.stats.packed import BINS, Summary

_KINDS = frozenset(Kind)
_SAMPLE_FIELDS = (
    "kinds", "series_names", "row_sizes", "order", "headers", "sketch_lengths", "unit_counts", "units",
)  # fmt: skip
_RANGE_FIELDS = 9  # the fields of a ScalarRange: four counts, then five values
SAMPLE = np.dtype(
    [
        ("block", "<u4"), ("series", "<u4"), ("first", "<i8"), ("last", "<i8"), ("merged", "<i8"),
        ("units", "<i8"), ("active", "<i8"), ("sketch", "<u4"), ("sketch_bytes", "<u4"),
        ("header", HEADER_TYPE),
    ]
)  # fmt: skip

Table = NDArray[Any]


def step_rows(
    blocks: Sequence[bytes], rows: Sequence[int], names: Sequence[bytes], /
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes, list[int]]:
    """Return for each row its block, step, wall time and whether any scalar was measured, then the scalars.

    The scalars are two tables with a line for each name: the values, NaN where there is none, and whether
    each was measured.
    """

    def read(data: bytes, count: int) -> list[Table]:
        message = _parts(data)
        steps, times = get_deltas(message[1], count), get_deltas(message[2], count)
        table = _parts(message[3])
        known, present = get_presence(_name_table(table[1]), table[2], count)
        words = np.full(present.shape, np.nan)
        words[present] = get_words(table[3], int(np.count_nonzero(present))).view(np.float64)
        values = np.full((len(names), count), np.nan)
        found = np.zeros((len(names), count), np.uint8)
        for place, at in _places(known, names):
            values[place], found[place] = words[at], present[at]
        measured: Table = np.logical_or.reduce(present, axis=0)
        return [steps, times.view(np.float64), measured.astype(np.uint8), values, found]

    empty: list[Table] = [np.empty(0, np.int64), np.empty(0), np.empty(0, np.uint8)]
    empty += [np.empty((len(names), 0)), np.empty((len(names), 0), np.uint8)]
    tables, owners, damaged = _joined(blocks, rows, read, empty)
    steps, times, measured, values, found = (table.tobytes() for table in tables)
    return owners, steps, times, measured, values, found, damaged


def detail_rows(
    blocks: Sequence[bytes], rows: Sequence[int], names: Sequence[bytes], /
) -> tuple[bytes, bytes, bytes, bytes, list[int]]:
    """Return for each row its block and its frame, then the scalars.

    The frame has five columns: first and last step, first and last time, number of steps. The scalars are,
    for each name, the nine columns of a ScalarRange, and whether there is one.
    """

    def read(data: bytes, count: int) -> list[Table]:
        message = _parts(data)
        columns = [get_deltas(message[field], count) for field in range(1, 5)]
        frame = np.stack([*columns, get_varints(message[5], count, limit=MOST_COUNT)])
        table = _parts(message[6])
        known, present = get_presence(_name_table(table[1]), table[2], count, numbers=_RANGE_FIELDS)
        measured = int(np.count_nonzero(present))
        counts = get_varints(table[3], 4 * measured, limit=MOST_COUNT).reshape(4, measured)
        words = get_words(table[4], 5 * measured, columns=5).view(np.int64).reshape(5, measured)
        ranges = np.zeros((len(names), _RANGE_FIELDS, count), np.int64)
        found = np.zeros((len(names), count), np.uint8)
        # Only measured ranges are stored, name after name.
        starts = np.concatenate([[0], np.cumsum(np.count_nonzero(present, axis=1))])
        for place, at in _places(known, names):
            part = slice(starts[at], starts[at + 1])
            ranges[place][:, present[at]] = np.concatenate([counts[:, part], words[:, part]])
            found[place] = present[at]
        return [frame, ranges, found]

    empty: list[Table] = [np.empty((5, 0), np.int64), np.empty((len(names), _RANGE_FIELDS, 0), np.int64)]
    empty += [np.empty((len(names), 0), np.uint8)]
    tables, owners, damaged = _joined(blocks, rows, read, empty)
    frame, ranges, found = (table.tobytes() for table in tables)
    return owners, frame, ranges, found, damaged


def sample_rows(
    blocks: Sequence[bytes],
    rows: Sequence[int],
    samples: Sequence[int],
    sketches: Sequence[int],
    details: bool,
    kinds: int,
    name: bytes | None,
    /,
) -> tuple[bytes, list[tuple[int, bytes]], list[int]]:
    """Return the samples of the wanted kinds, of one name or all, as SAMPLE, then the series by number.

    `kinds` is a bit set.
    """
    series: dict[tuple[int, bytes], int] = {}
    parts, damaged = [np.empty(0, SAMPLE)], []
    for place, (data, row_count, count, size) in enumerate(zip(blocks, rows, samples, sketches, strict=True)):
        try:
            parts.append(_samples_of(data, row_count, count, size, details, kinds, name, series))
            parts[-1]["block"] = place
        except (DamagedBlock, Malformed):
            damaged.append(place)
    return np.concatenate(parts).tobytes(), list(series), damaged


def _samples_of(
    data: bytes, rows: int, count: int, sketches: int, details: bool, kinds: int, name: bytes | None,
    series: dict[tuple[int, bytes], int],
) -> Table:  # fmt: skip
    message = _parts(data)
    # The sketches stay in the file: only their size is checked against the columns.
    columns = _sample_columns(message[7 if details else 4])
    table = decode_samples(columns, _Sized(sketches), rows=rows, count=count)  # type: ignore[arg-type]  # only len
    if details:
        steps = [get_deltas(message[8], count), get_deltas(message[9], count)]
        merged = get_varints(message[10], count, limit=MOST_COUNT)
    else:
        steps = [get_deltas(message[1], rows)[table.row_index]] * 2
        merged = np.ones(count, np.int64)
    keys = [(int(one.kind), _bytes(one.name)) for one in table.series]
    wanted = [kinds >> kind & 1 and name in (None, text) for kind, text in keys]
    numbers = [
        series.setdefault(key, len(series)) if want else 0 for key, want in zip(keys, wanted, strict=True)
    ]
    chosen = np.array(wanted, bool)[table.series_index] if count else np.empty(0, bool)
    result = np.zeros(count, SAMPLE)
    result["series"] = np.array(numbers, np.uint32)[table.series_index] if count else 0
    result["first"], result["last"], result["merged"] = *steps, merged
    result["units"], result["active"] = table._unit_counts, _active(table)
    ends = table._sketch_ends
    result["sketch"] = np.concatenate([[0], ends[:-1]])[:count]
    result["sketch_bytes"] = np.diff(ends, prepend=0)
    result["header"] = table.headers
    wanted_rows: Table = result[chosen]
    return wanted_rows


class _Sized:
    """Stands in for bytes that are not read: it has a length and nothing else."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def _active(table: SampleTable) -> Table:
    """Return the number of set bits in each bitmap."""
    ends = table._unit_ends
    starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
    # One byte more, because reduceat needs a valid start even for an empty bitmap at the very end.
    bits = _BITS[np.frombuffer(table._unit_bytes + b"\0", np.uint8)]
    active = np.add.reduceat(bits, starts, dtype=np.int64) if len(ends) else np.empty(0, np.int64)
    return np.where(ends > starts, active, 0)


_BITS = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


def names_of(blocks: Sequence[bytes], details: bool, /) -> tuple[list[bytes], list[tuple[int, bytes]]]:
    """Return all scalars and series that the undamaged blocks name, in order of appearance."""
    scalars: dict[bytes, None] = {}
    series: dict[tuple[int, bytes], None] = {}
    for data in blocks:
        try:
            message = _parts(data)
            known = get_names(_name_table(_parts(message[6 if details else 3])[1]))
            samples = _sample_columns(message[7 if details else 4])
            texts, kinds = get_names(samples.names), samples.kinds
            places = get_varints(samples.series_names, len(kinds), limit=max(len(texts) - 1, 0))
            if (len(kinds) and not texts) or any(kind not in _KINDS for kind in kinds):
                continue
        except (DamagedBlock, Malformed):
            continue
        scalars.update(dict.fromkeys(map(_bytes, known)))
        named = zip(kinds, places.tolist(), strict=True)
        series.update(dict.fromkeys((kind, _bytes(texts[place])) for kind, place in named))
    return list(scalars), list(series)


def tally(packed: Sequence[bytes | None], places: bytes, rows: int, /) -> bytes:
    """Add the counts of the packed summaries bin by bin at their places; return a table of doubles."""
    counts = np.zeros((rows, BINS))
    for one, place in zip(packed, np.frombuffer(places, np.int64).tolist(), strict=True):
        try:
            summary = Summary.unpack(one) if one is not None and 0 <= place < rows else None
        except ValueError:
            continue
        if summary is not None:
            counts[place, summary.bins] += summary.counts
    return counts.tobytes()


def _parts(data: bytes) -> defaultdict[int, bytes]:
    return defaultdict(bytes, byte_fields(data))


def _name_table(data: bytes) -> pb.NameTable:
    table = _parts(data)
    return pb.NameTable(lengths=table[1], text=table[2])


def _sample_columns(data: bytes) -> pb.SampleColumns:
    table = _parts(data)
    named = {field: table[2 + place] for place, field in enumerate(_SAMPLE_FIELDS)}
    return pb.SampleColumns(names=_name_table(table[1]), **named)


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def _places(known: Sequence[str], names: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return the wanted names that are there, as pairs of the place in `names` and in `known`."""
    at = {_bytes(name): place for place, name in enumerate(known)}
    return [(place, at[name]) for place, name in enumerate(names) if name in at]


def _joined(
    blocks: Sequence[bytes],
    rows: Sequence[int],
    read: Callable[[bytes, int], list[Table]],
    empty: list[Table],
) -> tuple[list[Table], bytes, list[int]]:
    """Return the joined tables of all blocks, the block of each row, and the damaged blocks."""
    parts, owners, damaged = [empty], [np.empty(0, np.uint32)], []
    for place, (data, count) in enumerate(zip(blocks, rows, strict=True)):
        try:
            require(count <= MOST_ROWS, "a block claims too many rows")
            parts.append(read(data, count))
        except (DamagedBlock, Malformed):
            damaged.append(place)
        else:
            owners.append(np.full(count, place, np.uint32))
    tables = [np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)]
    return tables, np.concatenate(owners).tobytes(), damaged
