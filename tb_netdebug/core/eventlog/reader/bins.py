"""Histograms with bins of any width, as other programs write them; read by `summary_views.py`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from tb_netdebug.core.records import netdebug_pb2 as pb

Doubles = NDArray[np.float64]

# TensorFlow's own histograms have about 1550 buckets; what has ten times as many is no histogram.
MOST_BINS = 1 << 14


class Bins(NamedTuple):
    """Rising bins, at least one; `sum_squares` is NaN where it is not known."""

    lower: Doubles
    upper: Doubles
    counts: Doubles
    sum: float
    sum_squares: float


def bins_of(data: bytes) -> Bins | None:
    """Return the histogram in a serialized summary value, or None if it holds none that makes sense."""
    try:
        value = pb.Summary.Value.FromString(data)
    except DecodeError:
        return None
    bins = _of_proto(value.histo) if value.HasField("histo") else _of_tensor(value.tensor)
    return _widened(bins) if bins is not None and _makes_sense(bins) else None


def _of_proto(histo: pb.HistogramProto) -> Bins | None:
    upper, counts = np.array(histo.bucket_limit), np.array(histo.bucket)
    if not 0 < len(upper) == len(counts) <= MOST_BINS:
        return None
    # The outermost limits may be those of all numbers: TensorFlow's buckets cover every float.
    upper = np.clip(upper, histo.min, histo.max)
    lower = np.concatenate([[histo.min], upper[:-1]])
    return Bins(lower, upper, counts, histo.sum, histo.sum_squares)


def _of_tensor(tensor: pb.TensorProto) -> Bins | None:
    """Return the bins of TensorBoard's newer form: rows of left edge, right edge and count."""
    if tensor.dtype not in (pb.DT_FLOAT, pb.DT_DOUBLE):
        return None
    is_single, content = tensor.dtype == pb.DT_FLOAT, tensor.tensor_content
    if len(content) % (4 if is_single else 8):
        return None
    numbers = np.array(tensor.float_val if is_single else tensor.double_val, np.float64)
    if content:
        numbers = np.frombuffer(content, "<f4" if is_single else "<f8").astype(np.float64)
    if not 0 < len(numbers) <= 3 * MOST_BINS or len(numbers) % 3:
        return None
    lower, upper, counts = numbers.reshape(-1, 3).T
    # Halved first: the sum of two edges near the largest double would be infinite.
    middle = lower / 2 + upper / 2
    return Bins(lower, upper, counts, float(middle @ counts), np.nan)


def _makes_sense(bins: Bins) -> bool:
    table = np.stack([bins.lower, bins.upper, bins.counts])
    return bool(
        np.isfinite(table).all()
        and (bins.counts >= 0).all()
        and bins.counts.any()
        and (bins.upper >= bins.lower).all()
        and (bins.lower[1:] >= bins.upper[:-1]).all()
    )


def _widened(bins: Bins) -> Bins:
    """Merge bins of zero width into their neighbours, unless all values are the same; drop empty bins."""
    wide = np.flatnonzero(bins.upper > bins.lower)
    if not len(wide):
        return bins._replace(
            lower=bins.lower[:1], upper=bins.lower[:1], counts=bins.counts.sum(keepdims=True)
        )
    # For each bin the last wide one up to it, or the first of all.
    owner = np.clip(np.searchsorted(wide, np.arange(len(bins.counts)), "right") - 1, 0, None)
    counts = np.bincount(owner, bins.counts, len(wide)).astype(np.float64)
    held = counts > 0
    return bins._replace(lower=bins.lower[wide][held], upper=bins.upper[wide][held], counts=counts[held])


def merged(parts: Sequence[Bins]) -> Bins:
    """Merge several histograms into one.

    Where an edge of one cuts a bin of another, the values of that bin are taken as evenly spread.
    """
    if len(parts) == 1:
        return parts[0]
    edges = np.unique(np.concatenate([edge for part in parts for edge in (part.lower, part.upper)]))
    if len(edges) > MOST_BINS:
        # Keep an even choice of the edges, with the outermost ones.
        edges = edges[np.linspace(0, len(edges) - 1, MOST_BINS).astype(np.int64)]
    counts = np.zeros(max(len(edges) - 1, 1))
    for part in parts:
        counts += _shared(part, edges)
    lower, upper = (edges[:-1], edges[1:]) if len(edges) > 1 else (edges, edges)
    used = counts > 0
    sums = float(sum(part.sum for part in parts)), float(sum(part.sum_squares for part in parts))
    return Bins(lower[used], upper[used], counts[used], *sums)


def _shared(part: Bins, edges: Doubles) -> Doubles:
    """Return the counts of a histogram between other edges."""
    if len(edges) < 2 or part.lower[0] == part.upper[-1]:
        place = np.searchsorted(edges[:-1], part.lower[0], "right") - 1 if len(edges) > 1 else 0
        alone = np.zeros(max(len(edges) - 1, 1))
        alone[max(int(place), 0)] = part.counts.sum()
        return alone
    both = np.stack([part.lower, part.upper], axis=1).reshape(-1)
    below = np.stack([np.zeros_like(part.counts), part.counts], axis=1).reshape(-1).cumsum()
    # Gaps between bins stay flat, and where two bins touch both limits have the same sum, so interpolation is
    # exact.
    shares: Doubles = np.diff(np.interp(edges, both, below))
    return shares
