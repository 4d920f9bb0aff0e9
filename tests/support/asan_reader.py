"""Feeds a C reader built with the address sanitizer with sound, changed and arbitrary bytes.

Usage: asan_reader.py EXTENSION. Under PYTHONMALLOC=malloc each bytes object is a heap block of its own.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import zstandard

# At the end of the path, so that the package itself is still the installed one.
sys.path.append(str(Path(__file__).parents[2]))

from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.eventlog.writer.values import histogram, payload, scalar
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import encode_block
from tb_netdebug.core.records.detail import DetailLevels, encode_detail
from tb_netdebug.core.records.step import StepRecord
from tests.support.event_files import damaged, framed
from tests.support.record_cases import training

ROUNDS = 3000


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("_native", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def messages(records: list[StepRecord]) -> list[tuple[bytes, int, int, int]]:
    """The columns of a step block and of a detail block, with the numbers of their envelopes."""
    levels = DetailLevels(factor=2, depth=1)
    made = [done for record in records for done in levels.add(record)] + levels.flush()
    steps, detail = (
        pb.StepBlock.FromString(encode_block(records)),
        pb.DetailBlock.FromString(encode_detail(made)),
    )
    unpack = zstandard.ZstdDecompressor().decompress
    return [
        (unpack(steps.columns), steps.steps, steps.samples, len(steps.sketches)),
        (unpack(detail.columns), detail.rows, detail.samples, len(detail.sketches)),
    ]


def changed(rng: random.Random, data: bytes) -> bytes:
    result = bytearray(data)
    for _ in range(rng.randint(0, 3) if data else 0):
        result[rng.randrange(len(result))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(result[: rng.choice([len(result), rng.randint(0, len(result))])])


def scan_all(reader: ModuleType, rng: random.Random, file: bytes) -> int:
    data = damaged(file, rng)
    start = rng.randint(0, len(data))
    piece = data[start : start + rng.randint(0, len(data))]
    for ours in (True, False):
        reader.scan(piece, 0, start, len(data) - start, -1, 0, 10 * len(data), ours)
        noise = frame(changed(rng, file[12 : 12 + rng.randint(0, 400)]))
        reader.scan(noise, 0, 0, len(noise), -1, 0, 1000, ours)
    return len(piece)


def read_all(
    reader: ModuleType, rng: random.Random, message: tuple[bytes, int, int, int], details: bool
) -> None:
    columns, rows, samples, sketches = message
    data = [changed(rng, columns), columns]
    count = [rows + rng.choice([0, 1]), rows]
    names = [b"loss", b"lr/0", changed(rng, b"time/step")]
    (reader.detail_rows if details else reader.step_rows)(data, count, names)
    numbers = [samples + rng.choice([0, 0, 1]), samples], [sketches, sketches]
    reader.sample_rows(data, count, *numbers, details, rng.getrandbits(6), rng.choice([None, b"loss"]))
    reader.names_of(data, details)


def run(reader: ModuleType, rng: random.Random) -> int:
    records, _ = training(4)
    both = messages(records)
    values = [payload("steps", 0, 1.0, encode_block(records)), scalar("loss", 0, 1.0, 1.0)]
    file = framed([*values, histogram("h", 0, 1.0, np.ones((2, 3))), payload("run", 0, 1.0, b"{}")]) * 2
    taken = 0
    for _ in range(ROUNDS):
        taken += scan_all(reader, rng, file)
        for details, message in enumerate(both):
            read_all(reader, rng, message, bool(details))
        packed = [changed(rng, records[0].samples[0].summary), b"", None]
        reader.tally(packed, np.array([0, 1, rng.randint(-2, 3)], np.int64).tobytes(), 2)
    return taken


if __name__ == "__main__":
    sys.stdout.write(f"done {run(load(sys.argv[1]), random.Random(1))}\n")
