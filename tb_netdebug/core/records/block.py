"""The step block: many steps in one columnar, compressed payload.

The writer encodes them; readers take the columns, and `StepBlock.records` restores the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.columns import (
    Doubles,
    Flags,
    Integers,
    get_deltas,
    get_doubles,
    get_flags,
    get_names,
    put_deltas,
    put_doubles,
    put_flags,
    put_names,
)
from tb_netdebug.core.records.envelope import check_version, compressed, decompressed, parsed
from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion, require
from tb_netdebug.core.records.fact_codec import get_facts, put_facts
from tb_netdebug.core.records.samples import MOST_ROWS, SampleTable, decode_samples, encode_samples
from tb_netdebug.core.records.step import Fact, StepRecord

__all__ = [
    "VERSION",
    "DamagedBlock",
    "ScalarColumn",
    "StepBlock",
    "UnsupportedVersion",
    "decode_block",
    "encode_block",
]

VERSION = 1
MOST_SCALARS = 1 << 16
MOST_CELLS = 1 << 24  # scalars times steps, whether present or not


@dataclass(frozen=True, slots=True, eq=False)
class ScalarColumn:
    """One scalar over the steps of a block; where it is not `present`, its value is a meaningless NaN."""

    values: Doubles
    present: Flags


@dataclass(frozen=True, slots=True, eq=False)
class StepBlock:
    """A decoded block: its steps as columns, in the order in which they were recorded."""

    version: int
    rank: int
    steps: Integers
    wall_times: Doubles
    scalars: dict[str, ScalarColumn]
    samples: SampleTable
    facts: list[tuple[int, Fact]]  # each with the index of its step

    def records(self) -> list[StepRecord]:
        """Return exactly the records that were encoded."""
        times = self.wall_times.tolist()
        records = [StepRecord(step, time) for step, time in zip(self.steps.tolist(), times, strict=True)]
        for name, column in self.scalars.items():
            values = column.values.tolist()
            for row in np.flatnonzero(column.present).tolist():
                records[row].scalars[name] = values[row]
        rows = self.samples.row_index[self.samples.order].tolist()
        for row, sample in zip(rows, self.samples.samples(), strict=True):
            records[row].samples.append(sample)
        for row, fact in self.facts:
            records[row].facts.append(fact)
        return records


def encode_block(records: Sequence[StepRecord], *, rank: int = 0) -> bytes:
    """Encode records; raise ValueError if a sample is malformed or they are too many for one block."""
    steps = np.array([record.step for record in records], np.int64)
    samples, sketches, _ = encode_samples([record.samples for record in records])
    columns = pb.StepColumns(
        steps=put_deltas(steps),
        wall_times=put_deltas(np.array([record.wall_time for record in records], np.float64)),
        scalars=_put_scalars([record.scalars for record in records]),
        samples=samples,
        facts=put_facts([record.facts for record in records]),
    )
    # The range of steps and the sizes stay outside the compressed part: a reader looks for blocks by them.
    # Steps may come in any order, so both ends of the range are searched for.
    block = pb.StepBlock(
        version=VERSION,
        rank=rank,
        first_step=steps.min(initial=steps[0]) if len(steps) else 0,
        last_step=steps.max(initial=steps[0]) if len(steps) else 0,
        steps=len(records),
        samples=sum(len(record.samples) for record in records),
        columns=compressed(columns),
        sketches=sketches,  # as good as random, hence not compressed again
    )
    return block.SerializeToString()


def decode_block(payload: bytes) -> StepBlock:
    """Decode a block; raise UnsupportedVersion or DamagedBlock.

    Damage inside a sketch raises only when that sketch is read.
    """
    block = parsed(payload, pb.StepBlock())
    check_version("step block", block.version, known=VERSION)
    require(block.steps <= MOST_ROWS, f"a block claims {block.steps} steps")
    columns = decompressed(block.columns, pb.StepColumns())
    return StepBlock(
        version=block.version,
        rank=block.rank,
        steps=get_deltas(columns.steps, block.steps),
        wall_times=get_deltas(columns.wall_times, block.steps).view(np.float64),
        scalars=_get_scalars(columns.scalars, block.steps),
        samples=decode_samples(columns.samples, block.sketches, rows=block.steps, count=block.samples),
        facts=get_facts(columns.facts, rows=block.steps),
    )


def _put_scalars(rows: Sequence[dict[str, float]]) -> pb.ScalarColumns:
    # A bit for each pair of name and step says whether there is a value; only those values are stored.
    places = name_places(rows)
    check_cells(len(places), len(rows))
    name_of = [places[name] for row in rows for name in row]
    row_of = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    present = np.zeros((len(places), len(rows)), np.bool_)
    present[name_of, row_of] = True
    values = np.empty(present.shape)
    values[name_of, row_of] = [value for row in rows for value in row.values()]
    return pb.ScalarColumns(
        names=put_names(places), present=put_flags(present), values=put_doubles(values[present])
    )


def _get_scalars(columns: pb.ScalarColumns, rows: int) -> dict[str, ScalarColumn]:
    names, present = get_presence(columns.names, columns.present, rows)
    values = np.full(present.shape, np.nan)
    values[present] = get_doubles(columns.values, int(np.count_nonzero(present)))
    return {name: ScalarColumn(*column) for name, *column in zip(names, values, present, strict=True)}


def get_presence(
    table: pb.NameTable, flags: bytes, rows: int, *, numbers: int = 1
) -> tuple[list[str], Flags]:
    """Return the names of scalars, and for each name the rows that hold it.

    `numbers` is how many numbers a cell holds, which counts towards the limit of a block.
    """
    names = get_names(table)
    require(_fits(len(names), rows, numbers), "a block claims too many scalars")
    require(len(set(names)) == len(names), "two scalars of a block have the same name")
    return names, get_flags(flags, len(names), rows)


def name_places(rows: Iterable[Iterable[str]]) -> dict[str, int]:
    """Number the names in the order of their first occurrence."""
    return {name: place for place, name in enumerate(dict.fromkeys(name for row in rows for name in row))}


def check_cells(names: int, rows: int, *, numbers: int = 1) -> None:
    if not _fits(names, rows, numbers):
        raise ValueError(f"{names} scalars of {rows} steps are too many for one block: use several")


def _fits(names: int, rows: int, numbers: int) -> bool:
    return names <= MOST_SCALARS and names * rows * numbers <= MOST_CELLS
