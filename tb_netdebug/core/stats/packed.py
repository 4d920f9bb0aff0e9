"""The packed summary: the kernel's statistics of one tensor, as bytes and as numbers."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# The fields of `Summary` up to `sum_squares`, in their order: six counts, then four doubles.
HEADER = struct.Struct("<6Q4d")
# The bytes of a header that count NaN, Inf and -Inf: all zero if every value is finite.
NONFINITE = slice(8, 32)
BINS = 4096
MOST_VARINT_BYTES = 10  # for 64 bits

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Summary:
    """Exact statistics of all values, and the number of values in each occupied bin.

    `count` includes non-finite values; `min`, `max`, `sum` and `sum_squares` leave them out. `overflow`
    counts finite values too large for a float32. `bins` are ascending; `counts` are never zero.
    """

    count: int
    nan: int
    pos_inf: int
    neg_inf: int
    zeros: int
    overflow: int
    min: float
    max: float
    sum: float
    sum_squares: float
    bins: NDArray[np.uint16]
    counts: Words

    @classmethod
    def unpack(cls, packed: bytes) -> Summary:
        """Decode a packed summary; raise ValueError for any other bytes."""
        if len(packed) < HEADER.size:
            raise ValueError(f"a packed summary has at least {HEADER.size} bytes; this one has {len(packed)}")
        numbers = read_varints(np.frombuffer(packed, np.uint8, offset=HEADER.size))
        gaps, counts = numbers[0::2], numbers[1::2]
        if len(gaps) != len(counts) or len(gaps) > BINS or (gaps >= BINS).any() or not counts.all():
            raise ValueError("the bins of a packed summary are damaged")
        bins = np.cumsum(gaps.astype(np.int64) + 1) - 1
        if len(bins) and bins[-1] >= BINS:
            raise ValueError("a packed summary names a bin that does not exist")
        fields = (*HEADER.unpack_from(packed), bins.astype(np.uint16), counts.copy())
        return cls(*fields)

    def pack(self) -> bytes:
        """Return the bytes that `unpack` reads."""
        # Bins are stored as gaps, so that neighbouring ones take one byte each.
        numbers = np.empty(2 * len(self.bins), np.uint64)
        numbers[0::2] = np.diff(self.bins.astype(np.int64), prepend=-1) - 1
        numbers[1::2] = self.counts
        header = HEADER.pack(
            self.count, self.nan, self.pos_inf, self.neg_inf, self.zeros, self.overflow,
            self.min, self.max, self.sum, self.sum_squares,
        )  # fmt: skip
        return header + write_varints(numbers).tobytes()

    @property
    def nonfinite(self) -> int:
        return self.nan + self.pos_inf + self.neg_inf

    @property
    def finite(self) -> int:
        return self.count - self.nonfinite

    @property
    def mean(self) -> float:
        return self.sum / self.finite if self.finite else math.nan

    @property
    def std(self) -> float:
        """The population standard deviation of the finite values (divided by n, not n - 1)."""
        if not self.finite:
            return math.nan
        mean = self.mean
        # Rounding may leave a tiny negative difference for nearly constant values.
        return _root(max(self.sum_squares / self.finite - mean * mean, 0.0))

    @property
    def norm(self) -> float:
        return _root(self.sum_squares)


def _root(square: float) -> float:
    return math.sqrt(square) if square >= 0 else math.nan


def read_varints(data: Bytes) -> Words:
    """Decode LEB128 numbers; raise ValueError unless each is complete and in its shortest form."""
    ends = np.flatnonzero(data < 128)  # the high bit is set in all bytes of a number but the last
    if len(data) and (not len(ends) or ends[-1] != len(data) - 1):
        raise ValueError("a number is cut off")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[: len(ends)]
    lengths = ends - starts + 1
    last = data[ends]
    # Nine bytes hold 63 bits, so a tenth one can only be 1.
    if (lengths > MOST_VARINT_BYTES).any() or ((lengths == MOST_VARINT_BYTES) & (last > 1)).any():
        raise ValueError("a number has more than 64 bits")
    if ((lengths > 1) & (last == 0)).any():
        raise ValueError("a number is not in its shortest form")
    place = np.arange(len(data)) - np.repeat(starts, lengths)
    pieces = (data & np.uint8(127)).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(pieces, starts) if len(starts) else np.empty(0, np.uint64)


def write_varints(numbers: Words) -> Bytes:
    """Encode numbers as LEB128: seven bits a byte, the lowest first."""
    shifts = np.arange(0, 7 * MOST_VARINT_BYTES, 7, dtype=np.uint64)
    rest = np.asarray(numbers, np.uint64)[:, None] >> shifts
    more = np.zeros(rest.shape, np.uint8)
    more[:, :-1] = np.where(rest[:, 1:] > 0, 128, 0)
    used = rest > 0
    used[:, 0] = True
    data: Bytes = ((rest & np.uint64(127)).astype(np.uint8) | more)[used]
    return data
