"""What NumPy and `math.fsum`, which know nothing of the kernels, say of the same values."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings

from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import STYLES, Array, item, summary_of, tensors, values

TOLERANCE = 1e-12
MOST_NORMAL = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


def as_doubles(array: Array, dtype: DType) -> Array:
    with np.errstate(all="ignore"):
        if dtype == DType.BFLOAT16:
            return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if dtype in (DType.COMPLEX64, DType.COMPLEX128):
            return np.where(np.isnan(array), np.nan, np.abs(array.astype(np.complex128)))
        return array.astype(np.float64)


def assert_agrees(kernel: ModuleType, array: Array, dtype: DType) -> None:
    """Counts and extremes are equal, sums as near as sums in any order can be to the true one."""
    summary, doubles = summary_of(kernel, array, dtype), as_doubles(array, dtype)
    finite = doubles[np.isfinite(doubles)]
    counts = [doubles.size, np.isnan(doubles).sum(), (doubles == np.inf).sum(), (doubles == -np.inf).sum()]
    assert counts == [summary.count, summary.nan, summary.pos_inf, summary.neg_inf]
    assert (finite == 0).sum() == summary.zeros
    assert summary.counts.sum() == summary.count
    if not finite.size:
        return
    tolerance = 1e-15 if dtype >= DType.COMPLEX64 else 0.0
    assert math.isclose(finite.min(), summary.min, rel_tol=tolerance)
    assert math.isclose(finite.max(), summary.max, rel_tol=tolerance)
    if np.abs(finite).max() < 1e150:
        size, power = math.fsum(np.abs(finite)), math.fsum(finite * finite)
        assert abs(math.fsum(finite) - summary.sum) <= TOLERANCE * size
        assert abs(power - summary.sum_squares) <= TOLERANCE * power + 5e-324


@settings(max_examples=200)
@given(tensors())
def test_any_tensor(kernel: ModuleType, tensor: tuple[Array, DType]) -> None:
    """Any tensor of any type."""
    assert_agrees(kernel, *tensor)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("style", STYLES)
def test_larger_tensors(kernel: ModuleType, dtype: DType, style: str) -> None:
    """Tensors of more than one strip."""
    assert_agrees(kernel, values(dtype, style, 70_001, dtype), dtype)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("size", [999, 300_001])
def test_histogram(kernel: ModuleType, style: str, size: int) -> None:
    """The bins of normal numbers are those of their top twelve bits."""
    array = values(DType.FLOAT32, style, size, 9)
    with np.errstate(invalid="ignore"):
        normal = array[(np.abs(array) >= MOST_NORMAL[0]) & (np.abs(array) <= MOST_NORMAL[1])]
    summary = summary_of(kernel, normal, DType.FLOAT32)
    expected = np.bincount(normal.view(np.uint32) >> 20, minlength=4096)
    assert (np.flatnonzero(expected).tolist(), expected[expected > 0].tolist()) == (
        summary.bins.tolist(),
        summary.counts.tolist(),
    )


@pytest.mark.parametrize("style", ["normal", "relu", "spoilt", "wide"])
def test_sum_squares(kernel: ModuleType, style: str) -> None:
    """The norm over several tensors is the norm of all their values."""
    arrays = [values(DType.FLOAT32, style, size, size) for size in (70_000, 3, 0, 1024)]
    total, nonfinite = kernel.sum_squares([item(array, DType.FLOAT32) for array in arrays], 2)
    joined = np.concatenate([as_doubles(array, DType.FLOAT32) for array in arrays])
    finite = joined[np.isfinite(joined)]
    assert joined.size - finite.size == nonfinite
    assert math.isclose(math.fsum(finite * finite), total, rel_tol=TOLERANCE)
