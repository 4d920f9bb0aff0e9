"""Event files whose records changed places, with forged headers and zeros between them: no block is gone."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.eventlog.writer.framing import OVERHEAD_BYTES, masked_crc
from tests.support.event_files import header_of
from tests.support.recorded import opened

NAME = "events.out.tfevents.1700000000.host.1.0000.netdebug"


def frames_of(data: bytes) -> list[bytes]:
    """The records of an intact file, one by one."""
    found, at = [], 0
    while at < len(data):
        end = at + OVERHEAD_BYTES + struct.unpack_from("<Q", data, at)[0]
        found.append(data[at:end])
        at = end
    return found


def is_block(frame: bytes) -> bool:
    return b"netdebug/steps" in frame


def disturbed(frames: Sequence[bytes], rng: random.Random) -> list[bytes]:
    """All of them, in another order, some twice, and with what an enemy or a disk puts between them."""
    found = list(frames)
    for _ in range(rng.randint(1, 12)):
        at, other = rng.randrange(len(found)), rng.randrange(len(found))
        way = rng.randrange(5)
        if way == 0:
            found[at], found[other] = found[other], found[at]
        elif way == 1:
            found.insert(other, found.pop(at))
        elif way == 2:
            found.insert(other, found[at])
        elif way == 3:
            found.insert(at, forged(rng, found[other]))
        else:
            found.insert(at, rng.choice([b"\0", b"\xff"]) * rng.randint(1, 200_000))
    if rng.random() < 0.2:
        rng.shuffle(found)
    return [*found, rng.choice([b"", bytes(rng.randint(1, 1 << 20)), forged(rng, found[0])])]


def forged(rng: random.Random, frame: bytes) -> bytes:
    """A header with a length that is not true, or a record with a checksum that is not right."""
    way = rng.randrange(4)
    if way == 0:
        return header_of(rng.choice([0, 1, 100, 1 << 20, 1 << 27, 1 << 40, (1 << 64) - 1]))
    if way == 1:
        return header_of(rng.randint(1, 4000)) * rng.randint(1, 50)
    if way == 2:
        return frame[:-4] + rng.randbytes(4)
    size = (len(frame) + 7).to_bytes(8, "little")
    return size + masked_crc(size + b"x").to_bytes(4, "little") + frame[12:]


def doors(folder: Path) -> list[int]:
    """How many steps the page, its curve, `nd.check` and the reader of whole runs know."""
    run = opened(folder)
    curve = run.scalars(["loss"], points=10_000).scalars["loss"]
    (checked,) = nd.check(folder).runs
    recorded = read_run(folder).main.steps.tolist()
    return [run.details()["steps"], int(curve.count.sum()), checked.steps, len(set(recorded)), len(recorded)]


def check_disorder(original: Path, folder: Path, rng: random.Random) -> int:
    """Nothing of a file is hidden or doubled when it is disturbed; its steps."""
    folder.mkdir()
    whole = read_run(original.parent).main.steps.tolist()
    (folder / NAME).write_bytes(b"".join(disturbed(frames_of(original.read_bytes()), rng)))
    assert [len(whole)] * 5 == doors(folder), f"{original}: steps are hidden or doubled"
    return len(whole)
