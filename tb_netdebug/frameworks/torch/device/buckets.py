"""The bins of the sketch as one sorted table of float bits, so that a device can bin by binary search.

Read as integers, the bits of floats rise with the value if it is positive, and with its magnitude if it is
negative. So a device needs only the first bits of each bucket, in that order; the host knows what the buckets
mean. Most buckets are one bin of the sketch. A float64 has a few of its own: for values that overflow a
float32, and for NaNs that the conversion to float32 would change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

BINS = 4096  # a bin is the top 12 bits of a float32, except next to ±0 and ±Inf
SIGN = 0x800
INFINITY = 0x7F8
ONE_NAN = 0x7FC  # the bin that stands for all NaNs
NANS = np.r_[0x7F9:0x800, 0xFF9:0x1000]


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """A sorted table for the device: bucket i holds the bits b with `edges[i - 1] <= b < edges[i]`."""

    edges: tuple[int, ...]
    bins: NDArray[np.int64]
    overflow: NDArray[np.bool_]

    @property
    def size(self) -> int:
        return len(self.bins)

    def folded(self, counts: NDArray[np.int32]) -> tuple[Counts, Counts]:
        """Return, for rows of bucket counts, the counts of the bins and how many values overflowed."""
        bins = np.zeros((len(counts), BINS), np.int64)
        half = self.size // 2
        for sign, start in ((SIGN, 0), (0, half)):  # `edges` begin with the negative values
            bins[:, sign : sign + INFINITY] = counts[:, start : start + INFINITY]  # one bucket for each bin
            for bucket in range(start + INFINITY, start + half):
                bins[:, self.bins[bucket]] += counts[:, bucket]
        return bins, counts[:, self.overflow].sum(axis=1, dtype=np.int64)


@cache
def of_singles() -> Buckets:
    """Return the buckets for the bits of float32."""
    first = [bin << 20 for bin in range(SIGN)]
    # ±0 and ±Inf have their bins to themselves: the neighbours with the same top bits are one bin higher.
    first[0x001], first[INFINITY + 1] = 1, (INFINITY << 20) + 1
    return _buckets(first, list(range(SIGN)), overflow=None, bits=32)


@cache
def of_doubles() -> Buckets:
    """Return the buckets for the bits of float64, by the bin of the float32 that each is rounded to."""
    singles = np.array(
        of_singles().edges[SIGN : INFINITY + SIGN - 1], np.int64
    )  # first bits of bins 1 … 0x7F7
    neighbours = np.stack([singles - 1, singles]).astype(np.uint32).view(np.float32).astype(np.float64)
    # A value half-way goes to the upper bin: the upper neighbour's mantissa is the even one.
    halfway = neighbours.mean(axis=0).view(np.int64).tolist()
    # The smallest double that rounds to an infinite float32.
    too_large = int(np.array(2.0**128 - 2.0**103).view(np.int64))
    infinity = 0x7FF << 52
    nans = [infinity + (top << 49) for top in range(8)]
    first = [0, 1, *halfway[1:], too_large, infinity, infinity + 1, *nans[1:]]
    # The conversion to float32 keeps the top of a NaN's payload and sets its quiet bit.
    bins = [*range(INFINITY), INFINITY - 1, INFINITY, *(ONE_NAN | top for top in range(8))]
    return _buckets(first, bins, overflow=INFINITY, bits=64)


def _buckets(first: list[int], bins: list[int], *, overflow: int | None, bits: int) -> Buckets:
    """Return buckets of both signs; `first` are the first bits of magnitudes. Negative ones sort first."""
    lowest = -(1 << (bits - 1))
    flags = np.array([index == overflow for index in range(len(first))] * 2, np.bool_)
    return Buckets(
        edges=(*(lowest + bits_ for bits_ in first[1:]), *first),
        bins=np.array([*(SIGN | bin for bin in bins), *bins], np.int64),
        overflow=flags,
    )
