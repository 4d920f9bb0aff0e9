"""From tensors to the addresses that the kernel reads; knows no backend of Keras."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.dtypes import DType

Array = NDArray[Any]
Item = tuple[int, int, int]

CODES: dict[str, int] = {
    "float32": DType.FLOAT32,
    "float64": DType.FLOAT64,
    "float16": DType.FLOAT16,
    "bfloat16": DType.BFLOAT16,
    "int8": DType.INT8,
    "uint8": DType.UINT8,
    "int16": DType.INT16,
    "int32": DType.INT32,
    "int64": DType.INT64,
    "bool": DType.BOOL,
    "complex64": DType.COMPLEX64,
    "complex128": DType.COMPLEX128,
}
UNKNOWN = -1
_codes: dict[Any, int | None] = {}
FLOATS = frozenset({"float32", "float64", "float16", "bfloat16", "complex64", "complex128"})


def array_of(tensor: Any) -> Array:
    """The values of an eager tensor, or of what has some already; those in host memory are not copied, and
    not to be written to."""
    found: Array = tensor._numpy() if hasattr(tensor, "_numpy") else np.asarray(tensor)
    if found.ndim == 0:
        return np.asarray(found)  # else it is a number, not an array
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


def number_of(tensor: Any) -> float:
    """Of an eager tensor with one value; the mean of several."""
    found = tensor._numpy()
    return float(found) if found.ndim == 0 else float(found.mean(dtype=np.float64))


def item_of(array: Array) -> Item | None:
    """For the kernel; None for a type that it does not know. The array must be kept until it was read."""
    code = _codes.get(array.dtype, UNKNOWN)
    if code == UNKNOWN:  # its name takes longer to find than all the rest here
        code = _codes[array.dtype] = CODES.get(array.dtype.name)
    return None if code is None else (address_of(array), array.size, code)


def address_of(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]  # `ctypes` makes objects first
    return found


def is_float(tensor: Any) -> bool:
    return tensor.dtype.name in FLOATS
