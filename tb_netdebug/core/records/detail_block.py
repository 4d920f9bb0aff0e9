"""The detail block: the records of one level of detail in one columnar, compressed payload.

Its layout follows the step block (`core/records/block.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import check_cells, get_presence, name_places
from tb_netdebug.core.records.columns import (
    Doubles,
    Flags,
    Integers,
    get_deltas,
    get_varints,
    get_words,
    put_deltas,
    put_flags,
    put_names,
    put_varints,
    put_words,
)
from tb_netdebug.core.records.detail_record import DetailRecord, DetailSample, ScalarRange
from tb_netdebug.core.records.envelope import check_version, compressed, decompressed, parsed
from tb_netdebug.core.records.errors import require
from tb_netdebug.core.records.samples import MOST_ROWS, SampleTable, decode_samples, encode_samples

DETAIL_VERSION = 1
MOST_COUNT = (1 << 63) - 1

_COUNTS = ("count", "nan", "pos_inf", "neg_inf")
_VALUES = ("min", "max", "sum", "first", "last")


@dataclass(frozen=True, slots=True, eq=False)
class RangeColumns:
    """One scalar over the rows of a block: `ScalarRange` as columns, 0 or NaN where it is not `present`."""

    present: Flags
    count: Integers
    nan: Integers
    pos_inf: Integers
    neg_inf: Integers
    min: Doubles
    max: Doubles
    sum: Doubles
    first: Doubles
    last: Doubles

    def range_at(self, row: int) -> ScalarRange:
        return ScalarRange(*(getattr(self, name)[row].item() for name in (*_COUNTS, *_VALUES)))


@dataclass(frozen=True, slots=True, eq=False)
class DetailBlock:
    """The rows of one level, in the order of the steps.

    Each sample has a step range of its own (`sample_first_steps`, `sample_last_steps`), in the order of the
    table. `steps` may be 0 in the last row of a run, which then holds only samples.
    """

    version: int
    rank: int
    level: int
    first_steps: Integers
    last_steps: Integers
    first_times: Doubles
    last_times: Doubles
    steps: Integers
    scalars: dict[str, RangeColumns]
    samples: SampleTable
    sample_first_steps: Integers
    sample_last_steps: Integers
    sample_merged: Integers

    def records(self) -> list[DetailRecord]:
        """Return exactly the records that were encoded."""
        columns = (self.first_steps, self.last_steps, self.first_times, self.last_times, self.steps)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        records = [DetailRecord(self.level, *row) for row in rows]
        for name, ranges in self.scalars.items():
            for row in np.flatnonzero(ranges.present).tolist():
                records[row].scalars[name] = ranges.range_at(row)
        for at, sample in zip(self.samples.order.tolist(), self.samples.samples(), strict=True):
            steps = self.sample_first_steps[at].item(), self.sample_last_steps[at].item()
            detail = DetailSample(*steps, self.sample_merged[at].item(), sample)
            records[self.samples.row_index[at]].samples.append(detail)
        return records


def encode_detail(records: Sequence[DetailRecord], *, rank: int = 0) -> bytes:
    """Encode records of one level; raise ValueError if there are none, several levels, or too many."""
    if len({record.level for record in records}) != 1:
        raise ValueError("a detail block holds the records of one level")
    # The samples' own columns have to stand in the order of the table, which groups samples by series.
    samples, sketches, order = encode_samples([[s.sample for s in record.samples] for record in records])
    details = [detail for record in records for detail in record.samples]
    table = [details[at] for at in np.argsort(order).tolist()]
    columns = pb.DetailColumns(
        first_steps=_put_steps([record.first_step for record in records]),
        last_steps=_put_steps([record.last_step for record in records]),
        first_times=put_deltas(np.array([record.first_time for record in records], np.float64)),
        last_times=put_deltas(np.array([record.last_time for record in records], np.float64)),
        steps=put_varints([record.steps for record in records]),
        scalars=_put_ranges([record.scalars for record in records]),
        samples=samples,
        sample_first_steps=_put_steps([detail.first_step for detail in table]),
        sample_last_steps=_put_steps([detail.last_step for detail in table]),
        sample_merged=put_varints([detail.merged for detail in table]),
    )
    block = pb.DetailBlock(
        version=DETAIL_VERSION,
        rank=rank,
        level=records[0].level,
        first_step=min(record.first_step for record in records),
        last_step=max(record.last_step for record in records),
        rows=len(records),
        samples=len(details),
        columns=compressed(columns),
        sketches=sketches,
    )
    return block.SerializeToString()


def decode_detail(payload: bytes) -> DetailBlock:
    """Decode a block; raise UnsupportedVersion or DamagedBlock.

    Damage inside a sketch raises only when that sketch is read.
    """
    block = parsed(payload, pb.DetailBlock())
    check_version("detail block", block.version, known=DETAIL_VERSION)
    rows = block.rows
    require(rows <= MOST_ROWS, f"a block claims {rows} rows")
    columns = decompressed(block.columns, pb.DetailColumns())
    samples = decode_samples(columns.samples, block.sketches, rows=rows, count=block.samples)
    return DetailBlock(
        version=block.version,
        rank=block.rank,
        level=block.level,
        first_steps=get_deltas(columns.first_steps, rows),
        last_steps=get_deltas(columns.last_steps, rows),
        first_times=get_deltas(columns.first_times, rows).view(np.float64),
        last_times=get_deltas(columns.last_times, rows).view(np.float64),
        steps=get_varints(columns.steps, rows, limit=MOST_COUNT),
        scalars=_get_ranges(columns.scalars, rows),
        samples=samples,
        sample_first_steps=get_deltas(columns.sample_first_steps, len(samples)),
        sample_last_steps=get_deltas(columns.sample_last_steps, len(samples)),
        sample_merged=get_varints(columns.sample_merged, len(samples), limit=MOST_COUNT),
    )


def _put_ranges(rows: Sequence[dict[str, ScalarRange]]) -> pb.DetailScalarColumns:
    places = name_places(rows)
    check_cells(len(places), len(rows), numbers=len(fields(ScalarRange)))
    present = np.array([[name in row for row in rows] for name in places], np.bool_).reshape(-1, len(rows))
    ranges = [row[name] for name in places for row in rows if name in row]
    # Only present ranges are stored, field after field, so that like numbers stand together.
    counts = [getattr(one, field) for field in _COUNTS for one in ranges]
    values = np.array([[getattr(one, field) for one in ranges] for field in _VALUES], np.float64)
    return pb.DetailScalarColumns(
        names=put_names(places),
        present=put_flags(present),
        counts=put_varints(counts),
        values=put_words(values.reshape(-1), columns=len(_VALUES)),
    )


def _get_ranges(columns: pb.DetailScalarColumns, rows: int) -> dict[str, RangeColumns]:
    names, present = get_presence(columns.names, columns.present, rows, numbers=len(fields(ScalarRange)))
    measured = int(np.count_nonzero(present))
    counts = get_varints(columns.counts, measured * len(_COUNTS), limit=MOST_COUNT)
    values = get_words(columns.values, measured * len(_VALUES), columns=len(_VALUES)).view(np.float64)
    tables = [_spread(part, present, 0) for part in counts.reshape(len(_COUNTS), -1)]
    tables += [_spread(part, present, np.nan) for part in values.reshape(len(_VALUES), -1)]
    return {
        name: RangeColumns(present[at], *(table[at] for table in tables)) for at, name in enumerate(names)
    }


def _spread(values: NDArray[Any], present: Flags, missing: float) -> NDArray[Any]:
    table = np.full(present.shape, missing, values.dtype)
    table[present] = values
    return table


def _put_steps(steps: Sequence[int]) -> bytes:
    return put_deltas(np.array(steps, np.int64))
