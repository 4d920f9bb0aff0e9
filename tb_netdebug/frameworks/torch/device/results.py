"""Turns the bytes that a device sent into packed summaries, with NumPy alone and on any thread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.device.buckets import BINS, INFINITY, NANS, ONE_NAN, Buckets, Counts


@dataclass(frozen=True, slots=True)
class SumSquares:
    """The sum over those tensors of a list that are finite; `nonfinite` counts the tensors that are not."""

    key: object
    total: float
    nonfinite: int

    @property
    def norm(self) -> float:
        return math.sqrt(self.total)


@dataclass(slots=True)
class Collected:
    """The content of a parcel, each result under the caller's key; `device_secs` is 0.0 where unknown."""

    summaries: list[tuple[object, bytes]] = field(default_factory=list)
    units: list[tuple[object, bytes]] = field(default_factory=list)
    scalars: list[tuple[object, float]] = field(default_factory=list)
    sums: list[SumSquares] = field(default_factory=list)
    device_secs: float = 0.0


class Cursor:
    """Reads arrays off a buffer, one after the other."""

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        self._buffer = buffer
        self._offset = 0

    def take(self, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
        taken = np.frombuffer(self._buffer, dtype, count, self._offset)
        self._offset += taken.nbytes
        return taken


class Part(Protocol):
    """Describes, on the host, what some bytes of a parcel mean."""

    def read(self, cursor: Cursor, into: Collected) -> None: ...


@dataclass(frozen=True, slots=True)
class ScalarPart:
    key: object
    dtype: np.dtype[Any]

    def read(self, cursor: Cursor, into: Collected) -> None:
        into.scalars.append((self.key, float(cursor.take(self.dtype, 1)[0])))


@dataclass(frozen=True, slots=True)
class NormsPart:
    """The norms of several tensors, one for each."""

    key: object
    tensors: int
    dtype: np.dtype[Any]

    def read(self, cursor: Cursor, into: Collected) -> None:
        norms = cursor.take(self.dtype, self.tensors).astype(np.float64)
        finite = norms[np.isfinite(norms)]
        into.sums.append(SumSquares(self.key, float(finite @ finite), self.tensors - len(finite)))


@dataclass(frozen=True, slots=True)
class UnitsPart:
    """The activity of units, one byte for each."""

    key: object
    units: int

    def read(self, cursor: Cursor, into: Collected) -> None:
        active = cursor.take(np.dtype(np.uint8), self.units)
        into.units.append((self.key, np.packbits(active, bitorder="little").tobytes()))


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of tensor number `tensor` of its group, followed in the chunk by `padded` values of +Inf."""

    tensor: int
    values: int
    padded: int
    rows: int
    one_nan: bool


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """The statistics of one segment; without finite values, `low` is +Inf and `high` is −Inf."""

    values: int
    bins: Counts
    overflow: int
    low: float
    high: float
    total: float
    squares: float


@dataclass(frozen=True, slots=True)
class Chunk:
    """Counts and partial results of consecutive segments, as `chunks` laid them out."""

    buckets: Buckets
    segments: tuple[Segment, ...]
    values: np.dtype[Any]
    totals: np.dtype[Any]

    def pieces(self, cursor: Cursor) -> Iterator[tuple[int, SegmentResult]]:
        """Yield the results of each segment, with the number of the tensor that it belongs to."""
        rows = np.array([segment.rows for segment in self.segments])
        starts, all_rows = np.cumsum(rows) - rows, int(rows.sum())
        counts = cursor.take(np.dtype(np.int32), len(rows) * self.buckets.size)
        low, high = (cursor.take(self.values, all_rows).astype(np.float64) for _ in range(2))
        total, squares = (cursor.take(self.totals, all_rows).astype(np.float64) for _ in range(2))
        numbers = [np.minimum.reduceat(low, starts), np.maximum.reduceat(high, starts)]
        with np.errstate(all="ignore"):  # squares of large doubles may overflow
            numbers += [np.add.reduceat(total, starts), np.add.reduceat(squares, starts)]
        bins, overflow = self.buckets.folded(counts.reshape(len(rows), -1))
        for segment, bins_, *others in zip(self.segments, bins, overflow, *numbers, strict=True):
            overflow_, *rest = (value.item() for value in others)
            yield segment.tensor, SegmentResult(segment.values, _clean(segment, bins_), overflow_, *rest)


@dataclass(frozen=True, slots=True)
class GroupPart:
    """The summaries of tensors `keys`, each made of its segments in `chunks`; an empty tensor has none."""

    keys: tuple[object, ...]
    chunks: tuple[Chunk, ...]

    def read(self, cursor: Cursor, into: Collected) -> None:
        pieces: list[list[SegmentResult]] = [[] for _ in self.keys]
        for chunk in self.chunks:
            for tensor, piece in chunk.pieces(cursor):
                pieces[tensor].append(piece)
        into.summaries += zip(self.keys, map(_packed, pieces), strict=True)


def read_parcel(parts: Sequence[Part], buffer: NDArray[np.uint8]) -> Collected:
    """Return the content of `buffer`, which `parts` describe. A pure function."""
    cursor, collected = Cursor(buffer), Collected()
    for part in parts:
        part.read(cursor, collected)
    return collected


def _clean(segment: Segment, bins: Counts) -> Counts:
    """Remove the padding, and merge NaNs into one bin where sign and payload depend on the machine."""
    bins[INFINITY] -= segment.padded
    if segment.one_nan:
        nan = bins[NANS].sum()
        bins[NANS] = 0
        bins[ONE_NAN] = nan
    return bins


def _packed(pieces: list[SegmentResult]) -> bytes:
    bins = sum((piece.bins for piece in pieces), np.zeros(BINS, np.int64))
    nan, pos_inf, neg_inf = int(bins[NANS].sum()), int(bins[INFINITY]), int(bins[BINS // 2 | INFINITY])
    count = sum(piece.values for piece in pieces)
    finite = count - nan - pos_inf - neg_inf
    total, squares = sum(piece.total for piece in pieces), sum(piece.squares for piece in pieces)
    used = np.flatnonzero(bins)
    return Summary(
        count=count,
        nan=nan,
        pos_inf=pos_inf,
        neg_inf=neg_inf,
        zeros=int(bins[0] + bins[BINS // 2]),
        overflow=sum(piece.overflow for piece in pieces),
        # Adding 0.0 turns -0.0 into 0.0.
        min=min(piece.low for piece in pieces) + 0.0 if finite else math.nan,
        max=max(piece.high for piece in pieces) + 0.0 if finite else math.nan,
        sum=math.nan if math.isnan(total) else total + 0.0,
        sum_squares=float(squares),
        bins=used.astype(np.uint16),
        counts=bins[used].astype(np.uint64),
    ).pack()
