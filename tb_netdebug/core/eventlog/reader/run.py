"""A whole recorded run as columns, for export and for judging from files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.block_order import Range, in_order
from tb_netdebug.core.eventlog.reader.frames import Gap
from tb_netdebug.core.eventlog.reader.payloads import StoredPayload, read_payloads
from tb_netdebug.core.eventlog.writer.event_file import SIDE_FOLDER, SUFFIX
from tb_netdebug.core.records.block import StepBlock, decode_block
from tb_netdebug.core.records.errors import DamagedBlock
from tb_netdebug.core.records.samples import HEADER_TYPE, SampleTable
from tb_netdebug.core.records.step import Series
from tb_netdebug.core.stats.packed import Summary

Rows = NDArray[np.int64]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """One scalar where it was measured; `rows` are places in the steps of the same RunColumns."""

    rows: Rows
    values: Doubles


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """The samples of one tensor. `headers["min"]` is the column of the minima, and so on."""

    rows: Rows
    headers: NDArray[np.void]
    _parts: list[tuple[SampleTable, int]]

    def summaries(self) -> Iterator[Summary]:
        """Yield a summary for each row, unpacked block by block; without bins where the sketch is damaged."""
        for table, series in self._parts:
            try:
                yield from table.summaries(series)
            except DamagedBlock:
                yield from map(_without_bins, table.headers[table.rows_of(series)].tolist())


@dataclass(frozen=True, slots=True, eq=False)
class RunColumns:
    """Everything that one rank recorded, in the order of writing.

    The steps of a resumed run may go back, and so may the rows of a tensor whose samples the flight recorder
    wrote late.
    """

    steps: Rows
    wall_times: Doubles
    scalars: dict[str, Scalar]
    tensors: dict[Series, Tensor]


@dataclass(frozen=True, slots=True)
class Loss:
    """Bytes of a file without a whole record, or a record that cannot be decoded."""

    path: Path
    gap: Gap
    complaint: str


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Everything that the files of a run hold.

    `ranks` has an entry for each rank that wrote. `latest` has the newest payload of every other kind, such
    as "graph" and "run", and `details` the payloads of each level of detail; both come from rank 0's files.
    """

    path: Path
    files: list[Path]
    ranks: dict[int, RunColumns]
    details: dict[int, list[bytes]]
    latest: dict[str, bytes]
    losses: list[Loss]

    @property
    def main(self) -> RunColumns:
        """The columns of rank 0."""
        return self.ranks.get(0, join([]))


def list_runs(logdir: Path) -> dict[str, Path]:
    """Return the folders with files of ours by their names relative to `logdir`; links are not followed."""
    found = {}
    for folder, folders, files in os.walk(logdir):
        folders.sort()
        path = Path(folder)
        if path.parts[-2:] == SIDE_FOLDER.parts and path.parents[1].is_relative_to(logdir):
            path = path.parents[1]
        if any(name.endswith(SUFFIX) for name in files):
            found[path.relative_to(logdir).as_posix()] = path
    return dict(sorted(found.items()))


def run_files(path: Path) -> list[Path]:
    """Return the event files of a run in the order in which they were made, rank 0's first."""
    return [
        file
        for folder in (path, path / SIDE_FOLDER)
        for file in sorted(folder.glob(f"*{SUFFIX}"))
        if file.is_file() and not file.is_symlink()
    ]


def read_run(path: Path | str) -> Run:
    """Read everything that can be read; what cannot is in `losses`.

    Raises OSError, and UnsupportedVersion for a recording of a newer NetDebug.
    """
    return _Collector(Path(path)).run()


@dataclass(slots=True)
class _Collector:
    path: Path
    blocks: dict[int, list[StepBlock]] = field(default_factory=dict)
    details: dict[int, list[bytes]] = field(default_factory=dict)
    latest: dict[str, bytes] = field(default_factory=dict)
    losses: list[Loss] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)

    def run(self) -> Run:
        files = run_files(self.path)
        for file in files:
            blocks: dict[int, list[StepBlock]] = {}
            self.seen.clear()
            for found in read_payloads(file):
                if isinstance(found, Gap):
                    self.losses.append(Loss(file, found, f"no whole record ({found.reason})"))
                else:
                    self._take(file, found, blocks)
            for rank, found_blocks in blocks.items():
                order = in_order([measured_range(block) for block in found_blocks])
                self.blocks.setdefault(rank, []).extend(found_blocks[at] for at in order)
        ranks = {rank: join(blocks) for rank, blocks in sorted(self.blocks.items())}
        return Run(self.path, files, ranks, self.details, self.latest, self.losses)

    def _take(self, file: Path, payload: StoredPayload, blocks: dict[int, list[StepBlock]]) -> None:
        kind, _, level = payload.name.partition("/")
        if kind == "steps":
            try:
                block = decode_block(payload.data)
            except DamagedBlock as damage:
                self.losses.append(Loss(file, payload.gap("payload"), str(damage)))
            else:
                # A block that stands in the file twice counts once.
                digest = hashlib.blake2b(payload.data, digest_size=16).digest()
                if digest not in self.seen and len(block.steps):
                    self.seen.add(digest)
                    blocks.setdefault(block.rank, []).append(block)
        elif file.parent == self.path and kind == "detail" and level.isdecimal():
            self.details.setdefault(int(level), []).append(payload.data)
        elif file.parent == self.path:
            self.latest[payload.name] = payload.data


def measured_range(block: StepBlock) -> Range:
    """Return the first and last step of a block, without late samples if it has other rows."""
    rows = np.zeros(len(block.steps), bool)
    for column in block.scalars.values():
        rows |= column.present
    steps = block.steps[rows] if rows.any() else block.steps
    return int(steps.min()), int(steps.max())


def join(blocks: list[StepBlock]) -> RunColumns:
    """Return the columns of several blocks, one after the other."""
    starts = np.cumsum([0, *(len(block.steps) for block in blocks)]).tolist()
    steps = np.concatenate([np.empty(0, np.int64), *(block.steps for block in blocks)])
    scalars: dict[str, list[tuple[Rows, Doubles]]] = {}
    measured = np.zeros(len(steps), bool)
    for start, block in zip(starts, blocks, strict=False):
        for name, column in block.scalars.items():
            present = np.flatnonzero(column.present)
            scalars.setdefault(name, []).append((present + start, column.values[present]))
            measured[present + start] = True
    homes, kept = rows_of_steps(steps, measured)
    tensors: dict[Series, list[tuple[Rows, SampleTable, int]]] = {}
    for start, block in zip(starts, blocks, strict=False):
        for index, series in enumerate(block.samples.series):
            rows = homes[block.samples.row_index[block.samples.rows_of(index)] + start]
            tensors.setdefault(series, []).append((rows, block.samples, index))
    return RunColumns(
        steps=steps[kept],
        wall_times=np.concatenate([np.empty(0), *(block.wall_times for block in blocks)])[kept],
        scalars={
            name: _scalar([(homes[rows], values) for rows, values in parts])
            for name, parts in scalars.items()
        },
        tensors={series: _tensor(parts) for series, parts in tensors.items()},
    )


def rows_of_steps(steps: Rows, measured: NDArray[np.bool_]) -> tuple[Rows, NDArray[np.bool_]]:
    """Return where each stored row ends up, and which rows stay.

    The flight recorder writes samples of a step whose scalars are in the file already. Such a row has no
    scalar, and is merged into the latest row before it of the same step.
    """
    kept = np.ones(len(steps), bool)
    homes = np.arange(len(steps))
    latest: dict[int, int] = {}
    for row, step in enumerate(steps.tolist()):
        if measured[row] or step not in latest:
            latest[step] = row
        else:
            kept[row] = False
            homes[row] = latest[step]
    places = np.cumsum(kept) - 1
    return places[homes], kept


def _scalar(parts: list[tuple[Rows, Doubles]]) -> Scalar:
    rows, values = zip(*parts, strict=True)
    return Scalar(np.concatenate(rows), np.concatenate(values))


def _tensor(parts: list[tuple[Rows, SampleTable, int]]) -> Tensor:
    headers = [np.empty(0, HEADER_TYPE), *(table.headers[table.rows_of(index)] for _, table, index in parts)]
    return Tensor(
        np.concatenate([rows for rows, _, _ in parts]),
        np.concatenate(headers),
        [(table, index) for _, table, index in parts],
    )


def _without_bins(header: tuple[Any, ...]) -> Summary:
    return Summary(*(*header, np.empty(0, np.uint16), np.empty(0, np.uint64)))
