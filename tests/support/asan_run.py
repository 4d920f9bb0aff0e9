"""Calls every function of a C kernel built with the address sanitizer, on blocks without a byte to spare.

Usage: asan_run.py EXTENSION [--over-read]. With --over-read the kernel is told of one value too many,
which the sanitizer has to report.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np

# At the end of the path, so that the package itself is still the installed one.
sys.path.append(str(Path(__file__).parents[2]))

from tb_netdebug.core.stats.dtypes import DType
from tests.support.kernel_cases import Array, values

SIZES = (0, 1, 2, 7, 15, 16, 17, 31, 33, 1023, 1024, 1025, 2047, 16_385, 33_001, 70_003)
STYLES = ("any bits", "spoilt", "window", "patchy")
LIBC = ctypes.CDLL(None)
LIBC.malloc.restype = ctypes.c_void_p
LIBC.malloc.argtypes = [ctypes.c_size_t]
LIBC.free.argtypes = [ctypes.c_void_p]


@contextmanager
def block(array: Array, *, shift_bytes: int = 0) -> Iterator[int]:
    """The address of a copy that ends where its heap block ends."""
    start = LIBC.malloc(array.nbytes + shift_bytes)
    ctypes.memmove(start + shift_bytes, array.ctypes.data, array.nbytes)
    yield start + shift_bytes
    LIBC.free(start)


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("_kernel", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dense(kernel: ModuleType, array: Array, dtype: DType) -> None:
    """Each function that reads contiguous memory, from addresses as aligned as the element type asks for."""
    previous = np.roll(array, 3)
    for threads, shift_bytes in ((1, 0), (3, array.itemsize)):
        with block(array, shift_bytes=shift_bytes) as now, block(previous, shift_bytes=shift_bytes) as before:
            item, update = (now, array.size, dtype), (now, before, array.size, dtype)
            assert len(kernel.summarize([item, item], threads)) == 2
            kernel.sum_squares([item, item], threads)
            assert len(kernel.summarize_updates([update], threads)) == 1
            assert ctypes.string_at(before, array.nbytes) == array.tobytes()
            units(kernel, now, array.size, dtype)


def units(kernel: ModuleType, address: int, size: int, dtype: DType) -> None:
    """Shapes that end exactly where the block does: rows of units, and planes."""
    for shape in ((1, size, 1), (1, 1, size), (size, 1, 1)):
        kernel.active_units(address, dtype, *shape, 1e30, 2e30)
        kernel.active_units(address, dtype, *shape, -1e300, 1e300)
    if size % 7 == 0:
        kernel.active_units(address, dtype, 7, size // 7, 1, 1e30, 2e30)


def views(kernel: ModuleType, array: Array, dtype: DType) -> None:
    """Transposed, stepped, reversed and expanded, down to the first and the last value of the block."""
    with block(array) as address:
        for shape, strides, first in (
            ((17, 7, 9), (1, 17, 119), 0),
            ((119, 9), (9, 1), 0),
            ((536,), (2,), 0),
            ((1071,), (-1,), 1070),
            ((9, 119), (-119, 1), 952),
            ((40, 119), (0, 1), 952),
            ((1,) * 60 + (3,), (5,) * 60 + (535,), 0),
            ((3, 0), (1, 1), 0),
        ):
            kernel.summarize_strided(address + first * array.itemsize, dtype, shape, strides)


def merging(kernel: ModuleType) -> None:
    """Whole summaries, and every way in which one may be cut off."""
    array = values(DType.FLOAT32, "any bits", 5000, 1)
    with block(array) as address:
        packed = kernel.summarize([(address, array.size, DType.FLOAT32)], 1)[0]
    for end in (*range(0, 300), len(packed)):
        try:
            kernel.merge([packed, packed[:end]])
        except ValueError:
            continue
    all_bins = np.arange(4096, dtype=np.uint32) << 20 | 1
    with block(all_bins) as address:
        kernel.merge(kernel.summarize([(address, all_bins.size, DType.FLOAT32)], 1) * 50)


def every_call(kernel: ModuleType) -> None:
    for dtype in DType:
        for style in STYLES:
            for size in SIZES:
                dense(kernel, values(dtype, style, size, size), dtype)
            views(kernel, values(dtype, style, 1071, 1), dtype)
    large = values(DType.FLOAT32, "restless", 300_001, 2)
    dense(kernel, large, DType.FLOAT32)
    merging(kernel)


def main(path: str, *flags: str) -> None:
    kernel = load(path)
    for name in kernel.description()["supported"]:
        kernel.use(name)
        if "--over-read" in flags:
            with block(values(DType.FLOAT32, "normal", 1000, 1)) as address:
                kernel.summarize([(address, 1001, DType.FLOAT32)], 1)
        else:
            every_call(kernel)
    sys.stdout.write(" ".join(["done", *kernel.description()["supported"]]))


if __name__ == "__main__":
    main(*sys.argv[1:])
