"""A NumPy array as a readable tensor, such as the result of an expression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.dtypes import DType
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.workbench import Index, Readable, TensorEntry

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ArrayReadable:
    entry: TensorEntry
    array: Array
    before: Array | None = None

    def summary(self) -> Summary:
        return summary_of(self.array)

    def part(self, index: Index) -> Array:
        return np.array(self.array[index])

    def previous(self) -> Readable | None:
        if self.before is None:
            return None
        entry = replace(self.entry, shape=self.before.shape, bytes=self.before.nbytes)
        return ArrayReadable(entry, self.before)


def readable_of(array: Array, name: str, kind: str) -> ArrayReadable:
    entry = TensorEntry(name, kind, name, array.shape, str(array.dtype), "cpu", array.nbytes)
    return ArrayReadable(entry, array)


def summary_of(array: Array) -> Summary:
    """Return the summary of any array of numbers; types unknown to the kernel are read as doubles."""
    dtype = DType.__members__.get(array.dtype.name.upper())
    if dtype is None or not array.dtype.isnative:
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        return summary_of(wide)
    if not array.flags.aligned or any(stride % array.itemsize for stride in array.strides):
        array = np.ascontiguousarray(array)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Summary.unpack(kernel.summarize_strided(array.ctypes.data, dtype, array.shape, strides))
