"""From TensorFlow tensors to the addresses that the kernel reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tb_netdebug.stats.dtypes import DType

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., Any])
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

# An output may be nested, but a structure deeper or wider than this is data, not activations.
MOST_DEPTH = 4
MOST_TENSORS = 32


def array_of(tensor: Any) -> Array:
    """The values of an eager tensor; those in host memory are not copied, and not to be written to."""
    found: Array = tensor._numpy() if hasattr(tensor, "_numpy") else tensor.numpy()
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


def dense(value: Any) -> Any:
    """An ordinary tensor with the values of a sparse one, duplicates added up; others as they are."""
    if isinstance(value, tf.IndexedSlices):
        places, numbers = tf.unique(value.indices)
        return tf.math.unsorted_segment_sum(value.values, numbers, tf.size(places))
    if isinstance(value, tf.SparseTensor):
        return value.values
    if isinstance(value, tf.RaggedTensor):
        return value.flat_values
    return value


def tensors_in(output: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The tensors of a nested output, each with its place in it: "", "[0]", "[hidden]", "[0][1]" …"""
    if isinstance(output, tf.Tensor | tf.IndexedSlices | tf.SparseTensor | tf.RaggedTensor):
        yield name, output
    elif depth < MOST_DEPTH:
        for key, value in parts_of(output):
            yield from tensors_in(value, f"{name}[{key}]", depth + 1)


def parts_of(output: Any) -> list[tuple[Any, Any]]:
    if isinstance(output, Mapping):
        return list(output.items())[:MOST_TENSORS]
    if isinstance(output, list | tuple):
        return list(enumerate(output))[:MOST_TENSORS]
    return []


def is_float(tensor: Any) -> bool:
    return tensor.dtype.name in FLOATS


def unconverted(function: Function) -> Function:
    """AutoGraph leaves the function as it is: only what it calls is the user's."""
    return cast("Function", tf.autograph.experimental.do_not_convert(function))
