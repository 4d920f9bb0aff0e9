"""The answer of the verbs `tensor` and `evaluate`: statistics, a histogram, a matrix of values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.sketch import histogram, merged
from tb_netdebug.debugger.protocol.arguments import MOST_CELLS
from tb_netdebug.debugger.tensors.array_readable import summary_of
from tb_netdebug.debugger.tensors.slices import as_text, length_of, parsed, pieces
from tb_netdebug.debugger.workbench import Index, Readable

Array = NDArray[Any]

MOST_BUCKETS = 64
# A difference is computed in chunks of this size, and for at most this many values.
CHUNK_VALUES = 1 << 20
MOST_DIFFERENCES = 1 << 29


def view(
    readable: Readable, *, slice: str | None = None, cells: int = 4096, previous: bool = False
) -> dict[str, Any]:
    """Return statistics of the whole tensor, and cells of the slice; raise WorkbenchError."""
    entry, notes = readable.entry, list[str]()
    index = parsed(slice, entry.shape)
    before = readable.previous() if previous else None
    # Up to three matrices share the limit: the present one, the previous one and their difference.
    most = max(min(cells, MOST_CELLS // (3 if before else 1)), 1)
    value = {
        "name": entry.name,
        "shape": list(entry.shape),
        "dtype": entry.dtype,
        "device": entry.device,
        "bytes": entry.bytes,
        "slice": as_text(index, entry.shape),
        "notes": notes,
        **_numbers(readable.summary()),
        **_matrix(readable, index, most, notes),
        "previous": None,
        "difference": None,
    }
    if "complex" in entry.dtype:
        notes.append("The values are complex: their magnitudes are shown.")
    if previous and before is None:
        notes.append("The values of the previous step were not kept; from the next step on, they are.")
    elif before is not None and before.entry.shape != entry.shape:
        notes.append(f"In the previous step, it had the shape {list(before.entry.shape)}.")
    elif before is not None:
        value["previous"] = {**_numbers(before.summary()), **_matrix(before, index, most, [])}
        value["difference"] = _difference(readable, before, index, most, notes)
    return value


def statistics_of(summary: Summary) -> dict[str, float]:
    names = ("count", "nan", "pos_inf", "neg_inf", "zeros", "min", "max", "mean", "std", "norm")
    return {name: getattr(summary, name) for name in names}


def histogram_of(summary: Summary) -> dict[str, list[float]] | None:
    """Return bins with edges that touch; None without a finite value."""
    found = histogram(summary, buckets=MOST_BUCKETS)
    if found is None:
        return None
    return {
        "lower": [found.min, *found.bucket_limit[:-1]],
        "upper": found.bucket_limit,
        "counts": found.bucket,
    }


def _numbers(summary: Summary) -> dict[str, Any]:
    return {"statistics": statistics_of(summary), "histogram": histogram_of(summary)}


def _difference(
    readable: Readable, before: Readable, index: Index, most: int, notes: list[str]
) -> dict[str, Any]:
    numbers: Mapping[str, Any] = {"statistics": None, "histogram": None}
    if math.prod(readable.entry.shape) <= MOST_DIFFERENCES:
        numbers = _numbers(difference_of(readable, before))
    else:
        notes.append("It is too large for statistics of the difference; the cells show a part of it.")
    now, then = (_thinned(each, index, most) for each in (readable, before))
    return {**numbers, "cells": {**_frame(index, most), "values": _listed(_minus(now, then))}}


def difference_of(readable: Readable, before: Readable) -> Summary:
    """Return the summary of the difference, computed in bounded chunks."""
    parts = [
        summary_of(_minus(readable.part(index), before.part(index)))
        for index in pieces(readable.entry.shape, CHUNK_VALUES)
    ]
    return merged(parts) if parts else summary_of(np.empty(0))


def _minus(now: Array, then: Array) -> Array:
    kind = np.complex128 if now.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(now.astype(kind) - then.astype(kind))


# ---- the matrix -------------------------------------------------------------------------------------------


def _matrix(readable: Readable, index: Index, most: int, notes: list[str]) -> dict[str, Any]:
    rows, columns = _sides(index)
    row_step, column_step = _steps(length_of(rows), length_of(columns), most)
    if sum(isinstance(each, slice) for each in index) > 2:
        notes.append("Of all dimensions but the last two, only the first index is shown.")
    if row_step > 1 or column_step > 1:
        notes.append(f"One in {row_step} rows and one in {column_step} columns are shown.")
    return {"cells": {**_frame(index, most), "values": _listed(_thinned(readable, index, most))}}


def _sides(index: Index) -> tuple[slice, slice]:
    """Return rows and columns of the matrix; a single value, or one dimension, is one row."""
    sides = [each for each in index if isinstance(each, slice)][-2:]
    one = slice(0, 1, 1)
    rows, columns = [one, one][: 2 - len(sides)] + sides
    return rows, columns


def _steps(rows: int, columns: int, most: int) -> tuple[int, int]:
    """Return the steps of rows and columns that leave few enough cells; a short side stays whole."""
    if rows * columns <= most:
        return 1, 1
    side = max(math.isqrt(most), 1)
    if rows <= side:
        return 1, math.ceil(columns / (most // rows))
    if columns <= side:
        return math.ceil(rows / (most // columns)), 1
    return math.ceil(rows / side), math.ceil(columns / side)


def _frame(index: Index, most: int) -> dict[str, Any]:
    rows, columns = _sides(index)
    row_step, column_step = _steps(length_of(rows), length_of(columns), most)
    return {
        "shape": [math.ceil(length_of(rows) / row_step), math.ceil(length_of(columns) / column_step)],
        "rows": [rows.start, rows.step * row_step],
        "columns": [columns.start, columns.step * column_step],
    }


def _thinned(readable: Readable, index: Index, most: int) -> Array:
    """Return the values of the matrix, row by row."""
    if 0 in (length_of(each) for each in index if isinstance(each, slice)):
        return np.empty(0)
    rows, columns = _sides(index)
    steps = list(_steps(length_of(rows), length_of(columns), most))
    picked: list[int | slice] = []
    for each in reversed(index):
        if isinstance(each, int):
            picked.append(each)
        else:
            picked.append(slice(each.start, each.stop, each.step * steps.pop()) if steps else each.start)
    return readable.part(tuple(reversed(picked))).reshape(-1)


def _listed(values: Array) -> list[float]:
    """Return Python numbers; shorter floats get no digits that they do not have."""
    if values.dtype.kind == "c":
        values = np.abs(values)
    if values.dtype.kind == "b":
        values = values.astype(np.uint8)
    if values.dtype.kind == "f" and values.dtype.itemsize <= 4:
        # The text of a short float is the shortest one that reads back as the same float.
        return [float(text) for text in values.astype("U32").tolist()]
    listed: list[float] = values.tolist()
    return listed
