"""The statistics kernel in NumPy: the specification of the C kernel, and its substitute without a compiler.

Both return the same bytes, so the order of every addition (see `_total`) and the bin of each value (see
`twin_values`) are part of the contract. Addresses are plain integers; the caller keeps their memory alive.
The items of a batch are checked before anything is read or written. `threads` is meant for the C kernel and
never changes a result.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.twin_memory import blocked, checked, dense, strided
from tb_netdebug.core.stats.twin_values import BINS, Doubles, Mask, Values

# The order of additions, see `_total`. The C kernel has the same constants.
LANES = 16
BLOCK = 1024
SMALLEST_STRIP = 16 * BLOCK
MOST_STRIPS = 64


@np.errstate(all="ignore")
def summarize(items: Sequence[tuple[int, int, int]], threads: int) -> list[bytes]:
    """Return a packed summary for each `(address, count, dtype)`."""
    batch = checked(items, fields=3)
    return [_packed(Values.of(dense(address, dtype, count), dtype)) for address, count, dtype in batch]


@np.errstate(all="ignore")
def summarize_strided(address: int, dtype: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """Return the packed summary of a view; its strides, in elements, may be zero or negative."""
    return _packed(Values.of(strided(address, dtype, shape, strides), dtype))


@np.errstate(all="ignore")
def summarize_updates(items: Sequence[tuple[int, int, int, int]], threads: int) -> list[tuple[bytes, bytes]]:
    """Return the summaries of current and of current − previous, for each item.

    An item is `(current, previous, count, dtype)`. Afterwards `previous` holds a copy of `current`.
    """
    return [_update(*item) for item in checked(items, fields=4)]


@np.errstate(all="ignore")
def sum_squares(items: Sequence[tuple[int, int, int]], threads: int) -> tuple[float, int]:
    """Return the sum of squares of the finite values of all items, and the number of non-finite ones."""
    total, nonfinite = 0.0, 0
    for address, count, dtype in checked(items, fields=3):
        exact = Values.of(dense(address, dtype, count), dtype).exact
        finite = np.isfinite(exact)
        total += _total(_squares(exact, finite))
        nonfinite += exact.size - int(np.count_nonzero(finite))
    return _one_nan(total), nonfinite


@np.errstate(all="ignore")
def active_units(
    address: int, dtype: int, outer: int, units: int, inner: int, low: float, high: float
) -> bytes:
    """Return a bitmap, lowest bit first, of the units that have a value in (low, high) other than 0.

    The memory is laid out as `[outer][units][inner]`.
    """
    array = blocked(address, dtype, outer, units, inner)
    exact = Values.of(array.reshape(-1), dtype).exact.reshape(array.shape)
    active = (low < exact) & (exact < high) & (exact != 0)
    return np.packbits(active.any(axis=(0, 2)), bitorder="little").tobytes()


@np.errstate(all="ignore")
def merge(packed: Sequence[bytes]) -> bytes:
    """Merge packed summaries into the summary of all their values."""
    parts = [Summary.unpack(part) for part in packed]
    counts = np.zeros(BINS, np.uint64)
    for part in parts:
        counts[part.bins] += part.counts
    return _summary_of(
        counts,
        # Counts of hostile summaries may add up to more than 64 bits hold; they wrap as in C.
        overflow=sum(part.overflow for part in parts) % 2**64,
        least=min((part.min for part in parts if not math.isnan(part.min)), default=math.inf),
        greatest=max((part.max for part in parts if not math.isnan(part.max)), default=-math.inf),
        total=_sum_in_order(part.sum for part in parts),
        squares=_sum_in_order(part.sum_squares for part in parts),
    )


def description() -> dict[str, object]:
    """Describe this kernel for `netdebug doctor`."""
    return {"kernel": "twin", "instruction_set": "numpy", "numpy": np.__version__}


def _update(current: int, previous: int, count: int, dtype: int) -> tuple[bytes, bytes]:
    new, old = dense(current, dtype, count), dense(previous, dtype, count)
    summaries = _packed(Values.of(new, dtype)), _packed(Values.of_difference(new, old, dtype))
    old[...] = new
    return summaries


def _packed(values: Values) -> bytes:
    exact = values.exact
    finite = np.isfinite(exact)
    return _summary_of(
        np.bincount(values.bins(), minlength=BINS).astype(np.uint64),
        overflow=int(np.count_nonzero(values.beyond_single())),
        least=float(exact.min(where=finite, initial=math.inf)),
        greatest=float(exact.max(where=finite, initial=-math.inf)),
        total=_total(np.where(finite, exact, 0.0)),
        squares=_total(_squares(exact, finite)),
    )


def _summary_of(
    counts: NDArray[np.uint64],
    *,
    overflow: int,
    least: float,
    greatest: float,
    total: float,
    squares: float,
) -> bytes:
    used = np.flatnonzero(counts)
    none_finite = least > greatest
    # In each half of the bins: 0x000 zero, 0x7F8 infinity, and above it NaN.
    summary = Summary(
        count=int(counts.sum()),
        nan=int(counts[0x7F9:0x800].sum() + counts[0xFF9:].sum()),
        pos_inf=int(counts[0x7F8]),
        neg_inf=int(counts[0xFF8]),
        zeros=int(counts[0x000] + counts[0x800]),
        overflow=overflow,
        # -0.0 becomes 0.0: which of the two is the minimum would depend on the order of the values.
        min=math.nan if none_finite else least + 0.0,
        max=math.nan if none_finite else greatest + 0.0,
        sum=_one_nan(total),
        sum_squares=_one_nan(squares),
        bins=used.astype(np.uint16),
        counts=counts[used],
    )
    return summary.pack()


def _squares(exact: Doubles, finite: Mask) -> Doubles:
    return np.where(finite, exact * exact, 0.0)


def _total(values: Doubles) -> float:
    """Add values in the one order that every machine and every number of threads keeps.

    In a block of 1024, value i is added to lane i % 16. The lanes of the blocks are added up over a strip,
    block by block; then the lanes of the strip are folded in halves, and finally the sums of the strips are
    added in order. A strip has 16384 values, or more, in whole blocks, where there would be over 64 strips.
    """
    size = values.size
    blocks = np.zeros(-(-size // BLOCK) * BLOCK)
    blocks[:size] = values
    # Padding with 0.0 changes no sum, because no sum is ever -0.0.
    lanes = _rows_in_order(blocks.reshape(-1, BLOCK // LANES, LANES).transpose(1, 0, 2))
    strip = max(SMALLEST_STRIP, -(-size // MOST_STRIPS))
    step = -(-strip // BLOCK)
    return _sum_in_order(_folded(_rows_in_order(lanes[at : at + step])) for at in range(0, len(lanes), step))


def _rows_in_order(rows: Doubles) -> Doubles:
    """Add rows one after another; NumPy's own sum chooses its order by the shape."""
    total = np.zeros(rows.shape[1:])
    for row in rows:
        total += row
    return total


def _folded(lanes: Doubles) -> float:
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = lanes[:half] + lanes[half:]
    return float(lanes[0])


def _sum_in_order(terms: Iterable[float]) -> float:
    total = 0.0
    for term in terms:
        total += term
    return total


def _one_nan(total: float) -> float:
    """Replace any NaN by the default one: the sign of a NaN from arithmetic depends on the machine."""
    return math.nan if math.isnan(total) else total
