"""A tensor as a `.npy` file, of which only the requested piece is read."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from tb_netdebug.debugger.tensors.slices import boxes, composed, parsed, shape_of
from tb_netdebug.debugger.workbench import Index, Readable, WorkbenchError

MOST_BYTES = 1 << 20


def piece_of(
    readable: Readable, *, slice: str | None, offset: int, most: int
) -> tuple[dict[str, Any], bytes]:
    """Return the value of the verb `bytes`, and its attachment; raise WorkbenchError."""
    index = parsed(slice, readable.entry.shape)
    shape, dtype = shape_of(index), _dtype_of(readable, index)
    header = _header(shape, dtype)
    size = len(header) + math.prod(shape) * dtype.itemsize
    if not 0 <= offset <= size:
        raise WorkbenchError(f"The file has {size} bytes: there is nothing at {offset}.")
    stop = min(offset + max(min(most, MOST_BYTES), 1), size)
    data = header[offset:stop]
    if stop > len(header):
        data += _values(readable, index, dtype, max(offset - len(header), 0), stop - len(header))
    value = {
        "size": size,
        "dtype": dtype.name,
        "shape": list(shape),
        "offset": offset,
        "is_last": offset + len(data) >= size,
    }
    return value, data


def _dtype_of(readable: Readable, index: Index) -> np.dtype[Any]:
    """Return the dtype of the tensor's parts: NumPy lacks some types of frameworks."""
    first = tuple(each if isinstance(each, int) else _first(each) for each in index)
    dtype: np.dtype[Any] = readable.part(first).dtype.newbyteorder("<")
    return dtype


def _first(part: slice) -> slice:
    return slice(part.start, min(part.start + 1, part.stop), 1)


def _header(shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    file = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)
    return file.getvalue()


def _values(readable: Readable, index: Index, dtype: np.dtype[Any], start: int, stop: int) -> bytes:
    """Return the bytes from `start` to `stop` of the values; either may lie within a value."""
    first, last = start // dtype.itemsize, math.ceil(stop / dtype.itemsize)
    parts = [
        readable.part(composed(index, box)).astype(dtype, copy=False).tobytes()
        for box in boxes(shape_of(index), first, last)
    ]
    skipped = start - first * dtype.itemsize
    return b"".join(parts)[skipped : skipped + stop - start]
