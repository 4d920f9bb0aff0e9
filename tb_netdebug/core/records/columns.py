"""Columns of numbers and names as bytes, laid out so that zstd compresses them well.

Input may be hostile: every `get_` function is told how many entries to expect, and rejects any other size
before it allocates for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.errors import DamagedBlock, require
from tb_netdebug.core.stats.packed import MOST_VARINT_BYTES, read_varints, write_varints

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST_NAMES = 1 << 20
_NAME_ERRORS = "surrogatepass"  # a Python name may hold what UTF-8 proper does not allow


def put_words(values: NDArray[Any], *, columns: int = 1) -> bytes:
    """Encode 64-bit numbers of any type as byte planes.

    Each of `columns` equal parts is stored with all of its lowest bytes first and all of its highest last.
    """
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(columns, values.size // columns, 8)
    data: bytes = planes.transpose(0, 2, 1).tobytes()
    return data


def get_words(data: bytes, count: int, *, columns: int = 1) -> Words:
    """Return `count` numbers, column after column."""
    require(len(data) == 8 * count, f"a column of {count} numbers has {len(data)} bytes")
    planes = np.frombuffer(data, np.uint8).reshape(columns, 8, count // columns)
    words: Words = np.ascontiguousarray(planes.transpose(0, 2, 1)).reshape(-1).view("<u8")
    return words


def put_doubles(values: Iterable[float]) -> bytes:
    return put_words(np.asarray(values, "<f8"))


def get_doubles(data: bytes, count: int) -> Doubles:
    return get_words(data, count).view("<f8")


def put_deltas(values: NDArray[np.int64] | NDArray[np.float64]) -> bytes:
    """Encode numbers that mostly rise in small steps; doubles are taken by their bits."""
    # Unsigned arithmetic wraps, so any difference is exact; zigzag keeps a small negative one small.
    bits = np.ascontiguousarray(values).view("<u8")
    steps = np.diff(bits, prepend=np.uint64(0))
    return put_words((steps << np.uint64(1)) ^ (np.uint64(0) - (steps >> np.uint64(63))))


def get_deltas(data: bytes, count: int) -> Integers:
    codes = get_words(data, count)
    steps = (codes >> np.uint64(1)) ^ (np.uint64(0) - (codes & np.uint64(1)))
    return np.cumsum(steps, dtype=np.uint64).view("<i8")


def put_varints(values: Sequence[int] | NDArray[Any]) -> bytes:
    return write_varints(np.asarray(values, np.uint64)).tobytes()


def get_varints(data: bytes, count: int, *, limit: int) -> Integers:
    """Return `count` numbers; raise DamagedBlock if one is above `limit`, which is below 2**63."""
    # Each number has 1 to 10 bytes, so a false count is refused before anything is allocated.
    require(count <= len(data) <= MOST_VARINT_BYTES * count, f"a column of {count} numbers is cut off")
    try:
        values = read_varints(np.frombuffer(data, np.uint8))
    except ValueError as error:
        raise DamagedBlock(f"in a column {error}") from None
    require(len(values) == count, f"a column has {len(values)} numbers where {count} are needed")
    require(not (values > np.uint64(limit)).any(), f"a column has a number above {limit}")
    return values.astype(np.int64)


def put_flags(flags: Flags) -> bytes:
    return np.packbits(flags.reshape(-1), bitorder="little").tobytes()


def get_flags(data: bytes, rows: int, columns: int) -> Flags:
    require(len(data) == (rows * columns + 7) // 8, "a column of bits has the wrong length")
    bits = np.unpackbits(np.frombuffer(data, np.uint8), count=rows * columns, bitorder="little")
    return bits.reshape(rows, columns).view(np.bool_)


def put_names(names: Iterable[str]) -> pb.NameTable:
    encoded = [name.encode("utf-8", _NAME_ERRORS) for name in names]
    return pb.NameTable(lengths=put_varints([len(name) for name in encoded]), text=b"".join(encoded))


def get_names(table: pb.NameTable) -> list[str]:
    """Return the names of a table; raise DamagedBlock if it is inconsistent."""
    # The last byte of a varint is the only one below 128, so these bytes count the names.
    count = int(np.count_nonzero(np.frombuffer(table.lengths, np.uint8) < 128))
    require(count <= MOST_NAMES, f"a block has {count} names")
    ends = np.cumsum(get_varints(table.lengths, count, limit=len(table.text)))
    require((ends[-1] if count else 0) == len(table.text), "the text of the names has the wrong length")
    bounds = [0, *ends.tolist()]
    try:
        return [table.text[start:end].decode("utf-8", _NAME_ERRORS) for start, end in pairwise(bounds)]
    except UnicodeDecodeError:
        raise DamagedBlock("a name is not text") from None


def zigzag(values: Integers) -> Words:
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def unzigzag(codes: Integers) -> Integers:
    result: Integers = (codes >> 1) ^ -(codes & 1)
    return result
