"""Turn tensors into the addresses that the kernel reads, independent of the Keras backend."""

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
    """Return the values of an eager tensor, or of anything that has values already.

    Values in host memory are not copied, so do not write to the array.
    """
    found: Array = tensor._numpy() if hasattr(tensor, "_numpy") else np.asarray(tensor)
    if found.ndim == 0:
        return np.asarray(found)  # a NumPy scalar otherwise, not an array
    return found if found.flags.c_contiguous else np.ascontiguousarray(found)


def number_of(tensor: Any) -> float:
    """Return the value of an eager tensor; the mean if it has several."""
    found = tensor._numpy()
    return float(found) if found.ndim == 0 else float(found.mean(dtype=np.float64))


def item_of(array: Array) -> Item | None:
    """Return (address, size, type code) for the kernel; None for a type that it does not know.

    The caller must keep the array alive until it has been read.
    """
    code = _codes.get(array.dtype, UNKNOWN)
    if code == UNKNOWN:  # looking up the name takes longer than everything else here
        code = _codes[array.dtype] = CODES.get(array.dtype.name)
    return None if code is None else (address_of(array), array.size, code)


def address_of(array: Array) -> int:
    found: int = array.__array_interface__["data"][0]  # `array.ctypes` would create objects first
    return found


def is_float(tensor: Any) -> bool:
    return tensor.dtype.name in FLOATS
