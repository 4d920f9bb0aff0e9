"""Event files for tests of the reader: of blocks as the writer frames them, and damaged ones."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.writer.framing import frame, masked_crc
from tb_netdebug.core.eventlog.writer.values import SummaryPoint, events, payload
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import encode_block
from tb_netdebug.core.records.step import StepRecord


def native_reader() -> scanner.Native:
    try:
        module: scanner.Native = importlib.import_module("tb_netdebug.core.eventlog.reader._native")
    except ImportError as error:
        pytest.fail(f"There is no C reader ({error}): see build/logs/wheel.log after `make test`")
    return module


def framed(values: Iterable[SummaryPoint]) -> bytes:
    serialized, _ = events(list(values), ())
    return b"".join(map(frame, serialized))


def blocks(records: Sequence[StepRecord], *, size: int = 4, rank: int = 0) -> bytes:
    """Step blocks of so many records each, without levels of detail."""
    return b"".join(
        framed([payload("steps", 0, 1.0, encode_block(records[at : at + size], rank=rank))])
        for at in range(0, len(records), size)
    )


def write_blocks(
    folder: Path, records: Sequence[StepRecord], *, size: int = 4, rank: int = 0, number: int = 0
) -> Path:
    """A file of such blocks; `number` puts it in the order of files."""
    place = folder if rank == 0 else folder / "plugins" / "netdebug"
    place.mkdir(parents=True, exist_ok=True)
    prefix = "events.out.tfevents" if rank == 0 else f"rank{rank}"
    path = place / f"{prefix}.{1700000000 + number}.host.1.{number:04d}.netdebug"
    path.write_bytes(blocks(records, size=size, rank=rank))
    return path


def newer_block(step: int) -> bytes:
    """A block of a format that is not known yet."""
    block = pb.StepBlock.FromString(encode_block([StepRecord(step, 1.0, {"loss": 1.0})]))
    block.version = 200
    return framed([payload("steps", step, 1.0, block.SerializeToString())])


def damaged(data: bytes, rng: random.Random) -> bytes:
    """What disks, networks and enemies do to a file."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(max(len(changed), 1))
        way = rng.randrange(6)
        if way == 0 and changed:
            changed[at] ^= 1 << rng.randrange(8)
        elif way == 1:
            changed[at : at + 4096] = bytes(len(changed[at : at + 4096]))
        elif way == 2:
            del changed[rng.randrange(len(changed) + 1) :]
        elif way == 3:
            del changed[at : at + rng.randint(1, 100)]
        elif way == 4:
            length = rng.choice([3, len(data), 1 << 20, 1 << 27, 1 << 40, (1 << 64) - 1])
            changed[at:at] = header_of(length)
        else:
            other = rng.randrange(max(len(changed), 1))
            changed[at:at] = changed[other : other + rng.randint(1, 600)]
    return bytes(changed)


def header_of(length: int) -> bytes:
    """The right header of a record that is not there."""
    size = length.to_bytes(8, "little")
    return size + masked_crc(size).to_bytes(4, "little")
