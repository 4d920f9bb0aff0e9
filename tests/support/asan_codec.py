"""Feeds a C codec built with the address sanitizer with sound, changed and arbitrary bytes.

Usage: asan_codec.py EXTENSION. Under PYTHONMALLOC=malloc each bytes object is a heap block of its own.
"""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path
from types import ModuleType

import numpy as np

# At the end of the path, so that the package itself is still the installed one.
sys.path.append(str(Path(__file__).parents[2]))

from tb_netdebug.core.stats.packed import HEADER, Summary

LIMIT = 1 << 22
ROUNDS = 1500


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("_codec", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def summary(rng: random.Random) -> bytes:
    """Any number of bins, anywhere, with small or with huge counts."""
    bins = np.array(sorted(rng.sample(range(4096), rng.choice([0, 1, 2, 30, 400, 4096]))), np.uint16)
    bits = rng.choice([1, 3, 12, 40, 64])
    counts = np.array([rng.getrandbits(bits) or 1 for _ in bins], np.uint64)
    header = HEADER.unpack(rng.randbytes(HEADER.size) if rng.random() < 0.5 else bytes(HEADER.size))
    fields = (*header, bins, counts)
    return Summary(*fields).pack()


def read(codec: ModuleType, *arguments: object) -> bool:
    try:
        codec.decode(*arguments, LIMIT)
    except ValueError:
        return False
    return True


def changed(rng: random.Random, data: bytes) -> bytes:
    result = bytearray(data)
    for _ in range(rng.randint(0, 4) if data else 0):
        result[rng.randrange(len(result))] ^= 1 << rng.randrange(8)
    return bytes(result[: rng.choice([len(result), rng.randint(0, len(result))])])


def run(codec: ModuleType, rng: random.Random) -> int:
    taken = 0
    for _ in range(ROUNDS):
        some = [summary(rng) for _ in range(rng.randint(0, 3))]
        some += some[-1:]
        fresh = bytes(rng.getrandbits(1) for _ in some)
        headers, lengths, stream = codec.encode(some, fresh)
        assert some == codec.decode(headers, lengths, fresh, stream, LIMIT)
        taken += read(codec, headers, lengths, fresh, changed(rng, stream))
        taken += read(codec, headers, changed(rng, lengths), fresh, stream)
        noise = rng.randbytes(rng.randint(0, 300))
        taken += read(codec, bytes(80), len(noise).to_bytes(4, "little"), fresh[:1] or b"\1", noise)
        with_mistake = changed(rng, some[0] if some else b"")
        try:
            codec.encode([with_mistake], b"\1")
        except ValueError:
            taken += 1
    return taken


if __name__ == "__main__":
    sys.stdout.write(f"done {run(load(sys.argv[1]), random.Random(1))}\n")
