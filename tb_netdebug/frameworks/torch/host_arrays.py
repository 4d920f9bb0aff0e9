"""NumPy arrays over the memory of tensors, made without `Tensor.numpy`.

`Tensor.numpy` marks a storage for good: a storage that was once shared with NumPy cannot be resized any more,
and the run may want to resize it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

# The types that torch and NumPy both name, as type strings of NumPy's array interface.
NUMPY_TYPES: dict[torch.dtype, str] = {
    getattr(torch, name): np.dtype(name).str
    for name in (
        "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool",
        "complex64", "complex128",
    )
}  # fmt: skip
# Other types, such as bfloat16, are read as integers of the same size.
INTEGERS = {np.dtype(name).itemsize: np.dtype(name).str for name in ("uint8", "int16", "int32", "int64")}


class TensorMemory:
    """Describes the memory of a tensor to NumPy and keeps the tensor alive as long as the array."""

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, tensor: torch.Tensor, type_name: str) -> None:
        size = tensor.element_size()
        strides = None if tensor.is_contiguous() else tuple([size * each for each in tensor.stride()])
        self._tensor = tensor
        self.__array_interface__ = {
            "data": (tensor.data_ptr(), True),  # read-only
            "shape": tensor.shape,
            "strides": strides,
            "typestr": type_name,
            "version": 3,
        }


def array_over(tensor: torch.Tensor) -> Array | None:
    """Return a read-only array over a strided tensor in host memory, or None for types of another size.

    Values of a type that NumPy does not know appear as integers. Resolve lazy negation and conjugation
    before.
    """
    type_name = NUMPY_TYPES.get(tensor.dtype) or INTEGERS.get(tensor.element_size())
    if type_name is None:
        return None
    if not tensor.numel():
        return np.empty(tensor.shape, type_name)
    return np.asarray(TensorMemory(tensor, type_name))


def values_over(tensor: torch.Tensor) -> Array:
    """Return the values of a tensor from any device, without a copy if it lies in host memory.

    Raise TypeError unless its type is one of `NUMPY_TYPES`.
    """
    if tensor.dtype not in NUMPY_TYPES:
        raise TypeError(f"NumPy has no type for {tensor.dtype}")
    return np.asarray(array_over(tensor.detach().cpu().resolve_conj().resolve_neg()))
