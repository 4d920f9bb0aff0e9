"""Which units of an activation were active."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import NUMPY_TYPES, STYLES, Array, values

BOUNDS = (
    -math.inf,
    -1e300,
    -1.0,
    -0.1,
    -1e-300,
    -0.0,
    0.0,
    1e-300,
    0.1,
    0.5,
    1.0,
    3.4028235e38,
    1e300,
    math.inf,
)


def bitmap(kernel: ModuleType, array: Array, dtype: DType, low: float, high: float) -> bytes:
    assert array.flags.c_contiguous
    found = kernel.active_units(array.ctypes.data, dtype, *array.shape, low, high)
    assert isinstance(found, bytes)
    return found


def one_by_one(array: Array, dtype: DType, low: float, high: float) -> bytes:
    """Unit after unit and value after value."""
    if dtype == DType.BFLOAT16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(all="ignore"):
        doubles = array.astype(np.float64) if array.dtype.kind != "c" else np.abs(array.astype(np.complex128))
    found = bytearray((array.shape[1] + 7) // 8)
    for unit in range(array.shape[1]):
        for value in doubles[:, unit, :].ravel().tolist():
            if low < value < high and value != 0:
                found[unit // 8] |= 1 << unit % 8
    return bytes(found)


@settings(max_examples=400)
@given(
    st.sampled_from(DType),
    st.sampled_from(list(STYLES)),
    st.tuples(st.integers(0, 4), st.integers(0, 21), st.sampled_from([0, 1, 2, 9])),
    st.tuples(st.sampled_from(BOUNDS), st.sampled_from(BOUNDS)),
    st.integers(0, 2**32),
)
def test_every_shape(
    kernel: ModuleType,
    dtype: DType,
    style: str,
    shape: tuple[int, int, int],
    bounds: tuple[float, float],
    seed: int,
) -> None:
    """The bitmap is what a loop over units and values finds."""
    array = values(dtype, style, math.prod(shape), seed).reshape(shape)
    assert one_by_one(array, dtype, *bounds) == bitmap(kernel, array, dtype, *bounds)


@pytest.mark.parametrize("shape", [(3, 2500, 1), (2, 3, 2500), (40, 1025, 1), (2, 17, 1024), (20, 8, 3)])
@pytest.mark.parametrize("dtype", DType)
def test_one_active_value(kernel: ModuleType, dtype: DType, shape: tuple[int, int, int]) -> None:
    """A single value, wherever it lies, marks its own unit and no other."""
    dead = np.zeros(shape, NUMPY_TYPES[dtype])
    value = 0x3F80 if dtype == DType.BFLOAT16 else 1
    for place in ((0, 0, 0), (shape[0] - 1, shape[1] - 1, shape[2] - 1), (1, shape[1] // 2, shape[2] // 2)):
        dead[place] = value
        expected = bytearray((shape[1] + 7) // 8)
        expected[place[1] // 8] = 1 << place[1] % 8
        assert bytes(expected) == bitmap(kernel, dead, dtype, -0.5, 1.5)
        dead[place] = 0


def test_bounds_are_open_and_compared_as_doubles(kernel: ModuleType) -> None:
    """A bound that no float32 equals still separates the two neighbours around it; an equal one excludes."""
    tenth = np.float32(0.1)
    array = np.array([np.nextafter(tenth, np.float32(0)), tenth], np.float32).reshape(1, 2, 1)
    assert b"\x02" == bitmap(kernel, array, DType.FLOAT32, 0.1, 1.0)
    assert b"\x01" == bitmap(kernel, array, DType.FLOAT32, 0.0, float(tenth))
    assert b"\x00" == bitmap(kernel, array, DType.FLOAT32, float(tenth), 1.0)


@pytest.mark.parametrize("bounds", [(math.nan, 1.0), (0.0, math.nan), (1.0, -1.0)])
def test_bounds_without_inside(kernel: ModuleType, bounds: tuple[float, float]) -> None:
    """Nothing lies between bounds of which one is NaN, or which are the wrong way round."""
    array = values(DType.FLOAT32, "normal", 40, 1).reshape(2, 20, 1)
    assert bytes(3) == bitmap(kernel, array, DType.FLOAT32, *bounds)


@pytest.mark.parametrize("shape", [(0, 9, 4), (3, 0, 4), (3, 9, 0)])
def test_empty(kernel: ModuleType, shape: tuple[int, int, int]) -> None:
    """Units without values are not active; no memory is needed."""
    assert bytes((shape[1] + 7) // 8) == kernel.active_units(0, DType.FLOAT32, *shape, -1.0, 1.0)
