"""Packed summaries added up."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary
from tests.support.kernel_cases import Array, packed_of, tensors, values

EMPTY = np.empty(0, np.float32)


@settings(max_examples=150)
@given(st.lists(tensors(largest=1100), max_size=5))
def test_counts_and_extremes(kernel: ModuleType, drawn: list[tuple[Array, DType]]) -> None:
    """Counts add up, the extremes are the outermost ones, and the sums are added in order."""
    packed = [packed_of(kernel, *pair) for pair in drawn]
    parts, whole = [Summary.unpack(part) for part in packed], Summary.unpack(kernel.merge(packed))
    for field in ("count", "nan", "pos_inf", "neg_inf", "zeros", "overflow"):
        assert sum(getattr(part, field) for part in parts) == getattr(whole, field)
    counts = np.zeros(4096, np.uint64)
    total = squares = 0.0
    for part in parts:
        counts[part.bins] += part.counts
        total, squares = total + part.sum, squares + part.sum_squares
    assert (np.flatnonzero(counts).tolist(), counts[counts > 0].tolist()) == (
        whole.bins.tolist(),
        whole.counts.tolist(),
    )
    expected = [
        np.fmin.reduce([part.min for part in parts] or [np.nan]),
        np.fmax.reduce([part.max for part in parts] or [np.nan]),
        total,
        squares,
    ]
    np.testing.assert_array_equal(expected, [whole.min, whole.max, whole.sum, whole.sum_squares])


def test_halves_of_a_tensor(kernel: ModuleType) -> None:
    """Halves whose sums are exact merge into the bytes of the whole."""
    whole = values(DType.INT16, "spoilt", 5001, 3).astype(np.float32)
    parts = [
        packed_of(kernel, part, DType.FLOAT32) for part in (whole[:2000].copy(), EMPTY, whole[2000:].copy())
    ]
    assert packed_of(kernel, whole, DType.FLOAT32) == kernel.merge(parts)


@pytest.mark.parametrize("packed", [[], [EMPTY], [EMPTY, EMPTY]])
def test_nothing(kernel: ModuleType, packed: list[Array]) -> None:
    """Merging nothing gives the summary of an empty tensor."""
    nothing = packed_of(kernel, EMPTY, DType.FLOAT32)
    assert nothing == kernel.merge([packed_of(kernel, part, DType.FLOAT32) for part in packed])


@pytest.mark.parametrize("doublings", [33, 40, 60])
def test_counts_beyond_32_bits(kernel: ModuleType, doublings: int) -> None:
    """Doubled often enough, a summary counts more values than 32 bits hold."""
    packed = packed_of(kernel, np.array([1.5, -2.0, 0.0], np.float32), DType.FLOAT32)
    for _ in range(doublings):
        packed = kernel.merge([packed, packed])
    summary = Summary.unpack(packed)
    times = 2**doublings
    assert (3 * times, times, [times] * 3) == (summary.count, summary.zeros, summary.counts.tolist())
    assert (-0.5 * times, 6.25 * times) == (summary.sum, summary.sum_squares)


def test_sums_that_cancel(kernel: ModuleType) -> None:
    """Infinite sums of both signs merge into the plain NaN."""
    ends = [packed_of(kernel, np.full(3, sign * 1.7e308), DType.FLOAT64) for sign in (1.0, -1.0)]
    merged = kernel.merge(ends)
    assert math.isnan(Summary.unpack(merged).sum)
    assert np.float64(np.nan).tobytes() == merged[64:72]


def test_many(kernel: ModuleType) -> None:
    """A thousand layers at once."""
    packed = packed_of(kernel, values(DType.FLOAT32, "any bits", 3000, 1), DType.FLOAT32)
    assert 3_000_000 == Summary.unpack(kernel.merge([packed] * 1000)).count


@pytest.mark.parametrize(
    ("tail", "cut"),
    [
        (b"", 79),
        (b"", 0),
        (b"\x05", 80),
        (b"\x80", 80),
        (b"\x05\x81", 80),
        (b"\x80\x20\x01", 80),
        (b"\xff\x1f\x01\x00\x01", 80),
        (b"\x00" + b"\xff" * 11 + b"\x01", 80),
    ],
)
def test_damaged(kernel: ModuleType, tail: bytes, cut: int) -> None:
    """Bytes that end too early, or that name a bin beyond the last one, are refused."""
    packed = packed_of(kernel, EMPTY, DType.FLOAT32)
    with pytest.raises(ValueError, match=r"."):
        kernel.merge([packed, packed[:cut] + tail])


@settings(max_examples=300)
@given(st.binary(max_size=120))
def test_any_bytes(kernel: ModuleType, junk: bytes) -> None:
    """Whatever bytes come, the answer is a summary or a ValueError."""
    try:
        merged = kernel.merge([bytes(80) + junk])
    except ValueError:
        return
    assert 80 <= len(merged)
