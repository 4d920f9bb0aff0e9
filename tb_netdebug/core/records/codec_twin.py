"""The sketches of packed summaries as a bit stream, in plain Python: the specification of `codec.c`.

Both produce the same bytes. A row is one summary. Its finite bins are walked from small to large magnitude,
first the positive half, then the negative one. Every count is predicted, and only the prediction error is
stored.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tb_netdebug.core.records.codec_bits import BitReader, BitWriter, fold, unfold, unzigzag, zigzag
from tb_netdebug.core.stats.packed import BINS, HEADER, Summary, write_varints

# A bin is the top 12 bits of a float32: the first is the sign, and 0x7F8 is the bin of infinity.
HALF = 0x800
LAST_FINITE = 0x7F7
MOST_ROW_BYTES = 1 << 16
CAP = 1 << 40  # keeps guesses and averages far from what 64 bits hold
# The bins of zeros, infinities and NaNs, of which the header mostly knows the counts already.
SPECIAL_BINS = [bin_ for bin_ in range(BINS) if not 0 < bin_ & (HALF - 1) <= LAST_FINITE]


@dataclass(slots=True)
class SketchRow:
    """One sketch; `low` and `top` are the first and last occupied finite bin of each half, 0 if empty."""

    counts: list[int] = field(default_factory=lambda: [0] * BINS)
    low: list[int] = field(default_factory=lambda: [0, 0])
    top: list[int] = field(default_factory=lambda: [0, 0])


class Walk:
    """The predictor of counts along one half, kept in step by encoder and decoder.

    Averages are fixed-point integers, scaled by 16, so that C computes the same ones.
    """

    def __init__(self, row: SketchRow, before: SketchRow | None, half: int) -> None:
        self._mirror = row.counts if half else None
        self._previous = before.counts[half * HALF :] if before else None
        self._guesses = [0, 0, 0, 0]
        self._errors = [0, 0, 0, 0]
        self._level = 0
        self._surprise = self._gap = 16
        self.last = [0, 0, 0]

    @property
    def rice_parameter(self) -> int:
        return _parameter(self._surprise)

    @property
    def gap_parameter(self) -> int:
        return _parameter(self._gap)

    def enter_bin(self, h: int) -> None:
        """Double the expected counts at the start of an octave, where bins become twice as wide."""
        if h & 7 == 0:
            self._level *= 2
            self.last = [min(2 * count, CAP) for count in self.last]

    def learn_gap(self, gap: int) -> None:
        self._gap = _follow(self._gap, gap, 2)
        # Counts before a stretch of empty bins say little about those after it.
        if gap:
            self._level, self.last = 0, [0, 0, 0]

    def guess(self, h: int) -> int:
        """Predict a count by the predictor with the smallest recent error.

        There are four: the neighbours, their trend, the mirrored bin, and the same bin of the previous row.
        """
        level = (self._level + 8) >> 4
        trend = max(3 * self.last[0] - self.last[2], 0) >> 1
        mirror = min(self._mirror[h], CAP) if self._mirror else level
        previous = min(self._previous[h], CAP) if self._previous else level
        self._guesses = [level, trend, mirror, previous]
        return self._guesses[self._errors.index(min(self._errors))]

    def learn(self, count: int, code: int) -> None:
        count = min(count, CAP)
        misses = [abs(count - guess) for guess in self._guesses]
        self._errors = [_follow(error, miss, 3) for error, miss in zip(self._errors, misses, strict=True)]
        self._surprise = _follow(self._surprise, min(code, CAP), 2)
        self._level = _follow(self._level, count, 2)
        self.last = [count, *self.last[:2]]


def encode(summaries: Sequence[bytes], fresh: bytes) -> tuple[bytes, bytes, bytes]:
    """Return headers, row lengths (uint32) and rows; `fresh[i]` is 1 where a series begins."""
    if len(fresh) != len(summaries):
        raise ValueError("fresh needs one byte for each summary")
    rows, before = [], None
    for i, summary in enumerate(summaries):
        try:
            row = _unpack(summary)
        except ValueError:
            raise ValueError(f"item {i} is not a packed summary") from None
        rows.append(_encode_row(row, None if fresh[i] else before or SketchRow(), _header(summary)))
        before = row
    lengths = struct.pack(f"<{len(rows)}I", *map(len, rows))
    return b"".join(summary[: HEADER.size] for summary in summaries), lengths, b"".join(rows)


def decode(headers: bytes, lengths: bytes, fresh: bytes, stream: bytes, limit: int) -> list[bytes]:
    """Return the packed summaries; raise ValueError if damaged, or if they exceed `limit` bytes by much."""
    if len(lengths) != 4 * len(fresh) or len(headers) != HEADER.size * len(fresh):
        raise ValueError("headers, lengths and fresh differ in their number of rows")
    packed: list[bytes] = []
    before, at, size = None, 0, 0
    for i, length in enumerate(struct.unpack(f"<{len(fresh)}I", lengths)):
        # Checked before each row, so the limit is exceeded by one row at most.
        if length > min(MOST_ROW_BYTES, len(stream) - at) or size > limit:
            raise ValueError("the sketches are damaged")
        header = headers[i * HEADER.size : (i + 1) * HEADER.size]
        before = _decode_row(
            stream[at : at + length], None if fresh[i] else before or SketchRow(), _header(header)
        )
        packed.append(header + _pack(before))
        at += length
        size += len(packed[-1])
    if at != len(stream):
        raise ValueError("the sketches are damaged")
    return packed


def _encode_row(row: SketchRow, before: SketchRow | None, header: dict[int, int]) -> bytes:
    bits = BitWriter()
    if before is not None:
        same = row.counts == before.counts
        bits.put(same, 1)
        if same:
            return bits.row()
    plain = all(row.counts[bin_] == header.get(bin_, 0) for bin_ in SPECIAL_BINS)
    bits.put(plain, 1)
    for bin_ in [] if plain else SPECIAL_BINS:
        bits.put(row.counts[bin_].bit_length(), 7)
        bits.put(row.counts[bin_], row.counts[bin_].bit_length())
    # The negative half comes second: it is predicted from the positive one.
    _encode_half(bits, row, before, 0)
    _encode_half(bits, row, before, 1)
    return bits.row()


def _decode_row(data: bytes, before: SketchRow | None, header: dict[int, int]) -> SketchRow:
    bits = BitReader(data)
    if before is not None and bits.get(1):
        return before  # complete rows never change, so one object may stand for several
    row = SketchRow()
    plain = bits.get(1)
    for bin_ in SPECIAL_BINS:
        row.counts[bin_] = header.get(bin_, 0) if plain else _special(bits)
    _decode_half(bits, row, before, 0)
    _decode_half(bits, row, before, 1)
    return row


def _special(bits: BitReader) -> int:
    length = bits.get(7)
    if length > 64:
        raise ValueError("the sketches are damaged")
    return bits.get(length)


def _encode_half(bits: BitWriter, row: SketchRow, before: SketchRow | None, half: int) -> None:
    counts = row.counts[half * HALF :]
    low, top = _expected_range(row, before, half)
    bits.golomb(zigzag(row.low[half] - low), 2)
    bits.golomb(zigzag(row.top[half] - top), 1)
    low, top = row.low[half], row.top[half]
    walk, h = Walk(row, before, half), low
    while 0 < h <= top:
        occupied = h in (low, top)  # known not to be empty, so one less is coded
        walk.enter_bin(h)
        # Behind an empty bin comes the number of further empty ones, not a zero for each.
        if not occupied and not walk.last[0]:
            gap = next(n for n in range(BINS) if counts[h + n])
            bits.golomb(gap, walk.gap_parameter)
            walk.learn_gap(gap)
            occupied, h = True, h + gap
        guess = walk.guess(h)
        code = fold(counts[h] - occupied, max(guess - occupied, 0))
        bits.rice(code, walk.rice_parameter)
        walk.learn(counts[h], code)
        h += 1


def _decode_half(bits: BitReader, row: SketchRow, before: SketchRow | None, half: int) -> None:
    low, top = _expected_range(row, before, half)
    low += unzigzag(bits.golomb(2))
    top += unzigzag(bits.golomb(1))
    if not 0 <= low <= top <= LAST_FINITE or (low == 0) != (top == 0):
        raise ValueError("the sketches are damaged")
    row.low[half], row.top[half] = low, top
    walk, h = Walk(row, before, half), low
    while 0 < h <= top:
        occupied = h in (low, top)
        walk.enter_bin(h)
        if not occupied and not walk.last[0]:
            gap = bits.golomb(walk.gap_parameter)
            if gap > top - h:
                raise ValueError("the sketches are damaged")
            walk.learn_gap(gap)
            occupied, h = True, h + gap
        guess = walk.guess(h)
        code = bits.rice(walk.rice_parameter)
        count = unfold(code, max(guess - occupied, 0)) + occupied
        if count >= 1 << 64:
            raise ValueError("the sketches are damaged")
        row.counts[half * HALF + h] = count
        walk.learn(count, code)
        h += 1


def _expected_range(row: SketchRow, before: SketchRow | None, half: int) -> tuple[int, int]:
    """Return the range of the previous row, else that of the other half, else bins around 1."""
    if before is not None:
        return before.low[half], before.top[half]
    return (row.low[0], row.top[0]) if half else (800, 1000)


def _header(summary: bytes) -> dict[int, int]:
    """Return the counts of the special bins that the header nearly always determines."""
    _, nan, pos_inf, neg_inf, zeros, *_ = HEADER.unpack_from(summary)
    return {0: zeros, 0x7F8: pos_inf, 0xFF8: neg_inf, 0x7FC: nan}


def _unpack(summary: bytes) -> SketchRow:
    unpacked, row = Summary.unpack(summary), SketchRow()
    for bin_, count in zip(unpacked.bins.tolist(), unpacked.counts.tolist(), strict=True):
        row.counts[bin_] = count
        half, h = divmod(bin_, HALF)
        if 0 < h <= LAST_FINITE:
            row.low[half] = row.low[half] or h
            row.top[half] = h
    return row


def _pack(row: SketchRow) -> bytes:
    used = [bin_ for bin_, count in enumerate(row.counts) if count]
    pairs = np.empty((len(used), 2), np.uint64)
    pairs[:, 0] = np.diff(np.array(used, np.int64), prepend=-1) - 1
    pairs[:, 1] = [row.counts[bin_] for bin_ in used]
    return write_varints(pairs.reshape(-1)).tobytes()


def _follow(average: int, value: int, shift: int) -> int:
    # An exponential moving average with weight 2**-shift, in integers scaled by 16.
    return average - (average >> shift) + (value << (4 - shift))


def _parameter(average: int) -> int:
    # The Rice parameter for a mean, here scaled by 16: log2 of 1.25 times the mean, rounded down.
    return (average * 5 >> 7).bit_length()
