"""Quantiles and histograms of a tensor, from the bins of its `Summary`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tb_netdebug.core.stats.packed import BINS, Summary

Doubles = NDArray[np.float64]

# A bin is the top 12 bits of a float32: sign, exponent and three bits of mantissa (see `twin_values`).
SIGN = 0x800
INFINITE = 0x7F8


def _magnitudes() -> Doubles:
    """Return the smallest magnitude of each bin up to the infinite one, whose edge is 2**128."""
    bins = np.arange(INFINITE + 1)
    mantissa = (bins & 7) / 8 + (bins >= 8)
    edges: Doubles = np.ldexp(mantissa, np.maximum(bins >> 3, 1) - 127)
    return edges


def _bin_edges() -> tuple[Doubles, Doubles]:
    edges = _magnitudes()
    inner, outer = np.full(SIGN, np.nan), np.full(SIGN, np.nan)
    inner[:INFINITE], outer[:INFINITE] = edges[:-1], edges[1:]
    outer[0] = inner[1] = 0.0  # zero has a bin of its own; the next one begins right above it
    inner[INFINITE] = outer[INFINITE] = np.inf
    return np.concatenate([inner, -outer]), np.concatenate([outer, -inner])


LOWER, UPPER = _bin_edges()
"""The smallest and largest value of each bin; NaN for the NaN bins."""

WIDTH: Doubles = np.where(np.isfinite(LOWER), UPPER - np.where(np.isfinite(LOWER), LOWER, 0.0), np.nan)


def _finite_by_value() -> NDArray[np.int64]:
    half = np.arange(INFINITE)
    return np.concatenate([SIGN + half[::-1], half])


FINITE_BY_VALUE = _finite_by_value()
"""All finite bins, from the most negative to the most positive."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """The fields of TensorBoard's HistogramProto, under the same names."""

    min: float
    max: float
    num: float
    sum: float
    sum_squares: float
    bucket_limit: list[float]
    bucket: list[float]


def finite_bins(summary: Summary) -> tuple[Doubles, Doubles, Doubles]:
    """Return lower edges, upper edges and counts of the occupied finite bins, ascending by value.

    The outermost edges are the exact minimum and maximum.
    """
    dense = np.zeros(BINS)
    dense[summary.bins] = summary.counts
    used = FINITE_BY_VALUE[dense[FINITE_BY_VALUE] > 0]
    lower, upper = LOWER[used], UPPER[used]
    if len(used):
        lower[0], upper[-1] = summary.min, summary.max
    return lower, upper, dense[used]


def quantiles(summary: Summary, qs: ArrayLike) -> Doubles:
    """Return the quantiles `qs` (0 to 1) of the finite values, or NaN if there are none.

    Values are assumed to be spread evenly inside a bin, so a quantile is off by less than one bin's width.
    """
    lower, upper, counts = finite_bins(summary)
    shares = np.asarray(qs, np.float64)
    if not len(counts):
        return np.full(shares.shape, np.nan)
    below = np.concatenate([[0.0], np.cumsum(counts)])
    rank = np.clip(shares, 0.0, 1.0) * below[-1]
    at = np.clip(np.searchsorted(below, rank, side="left") - 1, 0, len(counts) - 1)
    inside = (rank - below[at]) / counts[at]
    # Not lower + inside * width: near the limits of a double the width of a bin overflows.
    values: Doubles = lower[at] * (1.0 - inside) + upper[at] * inside
    return np.clip(values, summary.min, summary.max)


def histogram(summary: Summary, *, buckets: int = 120) -> Histogram | None:
    """Return the finite values as at most `buckets` buckets for TensorBoard, or None if there are none."""
    lower, upper, counts = finite_bins(summary)
    if not len(counts):
        return None
    edges, weights = _edges(lower, upper, counts)
    ends = _group_ends(edges, _scale(summary), buckets)
    starts = np.concatenate([[0], ends[:-1] + 1])
    return Histogram(
        min=summary.min,
        max=summary.max,
        num=float(weights.sum()),
        sum=summary.sum,
        sum_squares=summary.sum_squares,
        bucket_limit=edges[ends].tolist(),
        bucket=np.add.reduceat(weights, starts).tolist(),
    )


def merged(summaries: Sequence[Summary]) -> Summary:
    """Merge summaries into the summary of all their values."""
    from tb_netdebug.core.stats.kernel import merge

    return Summary.unpack(merge([summary.pack() for summary in summaries]))


def _edges(lower: Doubles, upper: Doubles, counts: Doubles) -> tuple[Doubles, Doubles]:
    """Return ascending limits and the count up to each of them; gaps between bins become empty buckets."""
    both = np.stack([lower, upper], axis=1).reshape(-1)
    weights = np.stack([np.zeros_like(counts), counts], axis=1).reshape(-1)
    edges, place = np.unique(both, return_inverse=True)
    total: Doubles = np.bincount(place.reshape(-1), weights, minlength=len(edges)).astype(np.float64)
    if len(edges) > 1:  # the first edge is the left border of the first bucket
        total[1] += total[0]
        return edges[1:], total[1:]
    return edges, total


def _group_ends(edges: Doubles, scale: float, buckets: int) -> NDArray[np.int64]:
    """Choose which edges remain as limits of at most `buckets` buckets.

    They are spaced evenly in the bulk and by ratio in the far tails, so that an outlier does not lump the
    rest together.
    """
    # arcsinh is linear near zero and logarithmic far from it.
    with np.errstate(over="ignore"):
        place = np.arcsinh(np.clip(edges / scale, -1e300, 1e300))
    place = (place - place[0]) / max(place[-1] - place[0], np.finfo(float).tiny)
    # Cells get finer as long as the edges kept fit into `buckets`: over a wide range most cells are empty.
    ends, cells = np.array([len(edges) - 1]), buckets - 1
    while cells < 64 * buckets and len(ends) < min(buckets, len(edges)):
        cell = np.floor(place * cells)
        finer = np.flatnonzero(np.append(cell[1:] != cell[:-1], True))
        if len(finer) > buckets:
            break
        ends, cells = finer, cells * 2
    return ends


def _scale(summary: Summary) -> float:
    # Half of the range between the deciles, halved before subtracting so that it cannot overflow.
    low, high = quantiles(summary, [0.1, 0.9])
    return float((high / 2 - low / 2) or max(abs(summary.min), abs(summary.max)) or 1.0)
