"""A first pass over an event file: finds what it holds, and in which order to judge it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from tb_netdebug.core.eventlog.reader.block_order import in_order, missing_between, missing_text
from tb_netdebug.core.eventlog.reader.frames import Gap
from tb_netdebug.core.eventlog.reader.payloads import StoredPayload, payload_at, read_payloads
from tb_netdebug.core.eventlog.reader.run import measured_range
from tb_netdebug.core.eventlog.reader.timeline import MOST_STEPS
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import decode_block
from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion
from tb_netdebug.core.records.graph import Graph, decode_graph
from tb_netdebug.core.records.run_info import decode_run_info
from tb_netdebug.core.records.samples import MOST_ROWS


class BlockLocation(NamedTuple):
    """Where a step block is, payload `number` of the record at `offset`, and which steps it holds."""

    offset: int
    number: int
    rank: int
    first: int
    last: int
    rows: int


@dataclass(slots=True)
class Survey:
    """What one file holds.

    `blocks` are in the order of recording; a block that is in the file twice is listed once.
    """

    file: Path
    blocks: list[BlockLocation] = field(default_factory=list)
    graph: Graph | None = None
    info: dict[str, Any] | None = None


def survey_of(file: Path, complaints: list[str]) -> Survey:
    """Read a file once; add what is damaged or missing to `complaints`. Raise OSError."""
    survey, seen = Survey(file), set[bytes]()
    offset, number, gaps = -1, 0, list[int]()
    for found in read_payloads(file):
        if isinstance(found, Gap):
            complaints.append(f"{file.name}: {found.size} bytes hold no whole record ({found.reason})")
            gaps.append(found.offset)
            continue
        number = number + 1 if found.offset == offset else 0
        offset = found.offset
        if found.name == "steps":
            digest = hashlib.blake2b(found.data, digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                survey.blocks.append(place_of(found, number))
        else:
            describe(survey, found, complaints)
    complaints += [f"{file.name}: {text}" for text in missing_in(survey.blocks, gaps)]
    survey.blocks = ordered(file, survey.blocks)
    return survey


def place_of(found: StoredPayload, number: int) -> BlockLocation:
    """Return the location of a step block; without steps when the payload cannot be a valid block."""
    try:
        block = pb.StepBlock.FromString(found.data)
    except DecodeError:
        return BlockLocation(found.offset, number, -1, 0, 0, 0)
    if not (-MOST_STEPS < block.first_step <= block.last_step < MOST_STEPS and block.steps <= MOST_ROWS):
        return BlockLocation(found.offset, number, -1, 0, 0, 0)
    return BlockLocation(found.offset, number, block.rank, block.first_step, block.last_step, block.steps)


def describe(survey: Survey, found: StoredPayload, complaints: list[str]) -> None:
    """Keep the graph or the description in a payload; the newest one wins."""
    try:
        if found.name == "graph":
            survey.graph = decode_graph(found.data)
        elif found.name == "run":
            survey.info = decode_run_info(found.data)
    except DamagedBlock as damage:
        complaints.append(f"{survey.file.name}: {damage}")


def ordered(file: Path, blocks: list[BlockLocation]) -> list[BlockLocation]:
    """Return the blocks in the order of recording, each rank by itself."""
    found: list[BlockLocation] = []
    for rank in dict.fromkeys(place.rank for place in blocks):
        own = [place for place in blocks if place.rank == rank]
        ranges = [(place.first, place.last) for place in own]
        # Only overlapping ranges are worth the cost of decoding the blocks.
        if any(first <= last for (first, _), (_, last) in zip(ranges[1:], ranges, strict=False)):
            ranges = [measured(file, place) for place in own]
        found += [own[at] for at in in_order(ranges)]
    return found


def measured(file: Path, place: BlockLocation) -> tuple[int, int]:
    """Return the first and last step of a block, without late samples of earlier steps.

    Those do not say where the block belongs.
    """
    bounds = place.first, max(place.first, place.last)
    if place.rows == place.last - place.first + 1:
        return bounds  # a row for each step, so nothing in it is late
    try:
        block = decode_block(payload_at(file, place.offset, place.number))
    except (DamagedBlock, UnsupportedVersion):
        return bounds
    return measured_range(block) if len(block.steps) else bounds


def missing_in(blocks: list[BlockLocation], gaps: list[int]) -> list[str]:
    """Return sentences about steps that no block has, except where the bytes are damaged."""
    known = [place for place in blocks if place.rows and place.first <= place.last]
    columns = np.array([(place.first, place.last, place.rows) for place in known], np.int64).reshape(-1, 3)
    ranks = np.array([place.rank for place in known], np.int64)
    told = []
    for rank in np.unique(ranks).tolist():
        own = np.flatnonzero(ranks == rank)
        for first, last, before, behind in missing_between(*columns[own].T):
            low, high = sorted((known[own[before]].offset, known[own[behind]].offset))
            if not any(low < offset < high for offset in gaps):
                told.append(missing_text(first, last))
    return told
