"""Raw addresses as NumPy arrays, for the twin; all checks of a caller's arguments are here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.dtypes import ITEM_BYTES, DType

Array = NDArray[Any]

# As many as NumPy 2 allows.
MOST_DIMENSIONS = 64
_TYPE_STRINGS = {
    DType.FLOAT32: "<f4",
    DType.FLOAT64: "<f8",
    DType.FLOAT16: "<f2",
    DType.BFLOAT16: "<u2",  # its bits, as NumPy has no such type; see twin_values
    DType.INT8: "|i1",
    DType.UINT8: "|u1",
    DType.INT16: "<i2",
    DType.INT32: "<i4",
    DType.INT64: "<i8",
    DType.BOOL: "|u1",
    DType.COMPLEX64: "<c8",
    DType.COMPLEX128: "<c16",
}


def dense(address: int, dtype: int, count: int) -> Array:
    """Return `count` contiguous values at `address`, without copying them."""
    return _array(address, DType(index(dtype)), (_length(count),), None)


def blocked(address: int, dtype: int, outer: int, units: int, inner: int) -> Array:
    """Return contiguous values at `address` as `[outer][units][inner]`, without copying them."""
    shape = (_length(outer), _length(units), _length(inner))
    return _array(address, DType(index(dtype)), shape, None)


def strided(address: int, dtype: int, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Return a view with `strides` counted in elements, flattened in memory order."""
    if len(shape) != len(strides) or len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"shape and strides must have the same length, at most {MOST_DIMENSIONS}")
    kind = DType(index(dtype))
    dims = [(_length(size), index(stride)) for size, stride in zip(shape, strides, strict=True)]
    # The stride of a dimension of size 1 is arbitrary and must not decide the order.
    dims = [dim for dim in dims if dim[0] != 1]
    dims.sort(key=lambda dim: -abs(dim[1]))
    sizes = tuple(size for size, _ in dims)
    byte_strides = tuple(stride * ITEM_BYTES[kind] for _, stride in dims)
    return _array(address, kind, sizes, byte_strides).reshape(-1)


def checked(items: Iterable[Sequence[int]], *, fields: int) -> list[tuple[int, ...]]:
    """Return the items of a batch as plain ints; raise before any memory has been read or written."""
    batch = [tuple(index(field) for field in item) for item in items]
    for item in batch:
        if len(item) != fields:
            raise ValueError(f"an item has {len(item)} fields where {fields} are needed")
        *addresses, count, dtype = item
        for address in addresses:
            dense(address, dtype, count)
    return batch


def _length(count: int) -> int:
    if index(count) < 0:
        raise ValueError(f"a count cannot be negative: {count}")
    return index(count)


def _array(address: int, dtype: DType, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Array:
    type_string = _TYPE_STRINGS[dtype]
    if 0 in shape:  # an empty tensor need not have memory
        return np.empty(shape, type_string)
    if index(address) <= 0:
        raise ValueError(f"no memory lies at address {address}")
    # NumPy's protocol for arrays over memory that it does not own.
    interface = {
        "version": 3,
        "data": (index(address), False),
        "shape": shape,
        "strides": strides,
        "typestr": type_string,
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))
