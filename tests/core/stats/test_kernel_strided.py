"""Views with strides are read in place, in the order in which they lie in memory."""

from __future__ import annotations

import itertools
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import NUMPY_TYPES, Array, packed_of, values


def strided(kernel: ModuleType, view: Array, dtype: DType) -> bytes:
    strides = tuple(stride // view.itemsize for stride in view.strides)
    packed = kernel.summarize_strided(view.ctypes.data, dtype, view.shape, strides)
    assert isinstance(packed, bytes)
    return packed


def in_storage_order(view: Array) -> Array:
    """A dense copy, the dimension with the longest stride outermost."""
    dims = [axis for axis in range(view.ndim) if view.shape[axis] != 1]
    dims.sort(key=lambda axis: -abs(view.strides[axis]))
    ones = [axis for axis in range(view.ndim) if view.shape[axis] == 1]
    return np.ascontiguousarray(view.transpose(ones + dims)).reshape(-1)


def grid(dtype: DType, *shape: int) -> Array:
    return values(dtype, "spoilt", int(np.prod(shape)), 11).reshape(shape)


@st.composite
def views(draw: st.DrawFn) -> tuple[Array, DType]:
    """Slices with steps of both signs, permuted, some dimensions expanded without memory of their own."""
    dtype = draw(st.sampled_from(DType))
    view = grid(dtype, *draw(st.lists(st.integers(0, 9), max_size=4)))
    steps = st.sampled_from([1, 1, 2, 3, -1, -2])
    slices = tuple(slice(None, None, draw(steps)) for _ in range(view.ndim))
    view = view[slices] if slices else view
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, view.ndim))
        shape = (*view.shape[:place], draw(st.sampled_from([1, 2, 7])), *view.shape[place:])
        view = np.broadcast_to(np.expand_dims(view, place), shape)
    return view.transpose(draw(st.permutations(range(view.ndim)))), dtype


@settings(max_examples=300)
@given(views())
def test_any_view(kernel: ModuleType, drawn: tuple[Array, DType]) -> None:
    """A view counts as the dense tensor that holds its values in storage order."""
    view, dtype = drawn
    assert packed_of(kernel, in_storage_order(view), dtype) == strided(kernel, view, dtype)


@pytest.mark.parametrize("dtype", DType)
@pytest.mark.parametrize("axes", list(itertools.permutations(range(4)))[::5])
def test_permuted_dense_tensor(kernel: ModuleType, dtype: DType, axes: tuple[int, ...]) -> None:
    """Every permutation of a dense tensor, channels-last for one, gives what the tensor itself gives."""
    dense = grid(dtype, 3, 5, 33, 7)
    assert packed_of(kernel, dense, dtype) == strided(kernel, dense.transpose(axes), dtype)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16, DType.COMPLEX128])
def test_large_views(kernel: ModuleType, dtype: DType) -> None:
    """Beyond a strip the order of summation is that of the dense tensor too."""
    wide = grid(dtype, 500, 700)
    for view in (wide.T, wide[:, ::2], wide[::-1, 3:600], wide[1:, :].T):
        assert packed_of(kernel, in_storage_order(view), dtype) == strided(kernel, view, dtype)


def test_expanded_value(kernel: ModuleType) -> None:
    """A value expanded by strides of zero is counted as often as it appears."""
    view = np.broadcast_to(np.float32(1.5), (300, 400))
    expected = packed_of(kernel, np.full(120_000, 1.5, np.float32), DType.FLOAT32)
    assert expected == strided(kernel, view, DType.FLOAT32)


@pytest.mark.parametrize("dtype", DType)
def test_scalar_and_empty(kernel: ModuleType, dtype: DType) -> None:
    """A tensor without dimensions is one value; one with a dimension of zero is none and needs no memory."""
    one = np.ones(1, NUMPY_TYPES[dtype])
    assert packed_of(kernel, one, dtype) == kernel.summarize_strided(one.ctypes.data, dtype, (), ())
    assert packed_of(kernel, one[:0], dtype) == kernel.summarize_strided(0, dtype, (4, 0, 2), (1, 1, 1))


def test_many_dimensions(kernel: ModuleType) -> None:
    """Seventeen dimensions of two, in reverse."""
    view = grid(DType.FLOAT32, *[2] * 17).transpose(range(16, -1, -1))[::-1]
    assert packed_of(kernel, in_storage_order(view), DType.FLOAT32) == strided(kernel, view, DType.FLOAT32)


@pytest.mark.parametrize("strides", [(1, 1), (3, -3), (-2, 2, 2), (1, 0, 1)])
def test_equal_strides(kernel: ModuleType, strides: tuple[int, ...]) -> None:
    """Dimensions of a windowed view with the same stride stay in the order in which they are given."""
    array = values(DType.FLOAT32, "wide", 400, 1)[150:]
    view = np.lib.stride_tricks.as_strided(
        array, (9, 5, 3)[: len(strides)], [4 * stride for stride in strides]
    )
    assert packed_of(kernel, in_storage_order(view), DType.FLOAT32) == strided(kernel, view, DType.FLOAT32)
