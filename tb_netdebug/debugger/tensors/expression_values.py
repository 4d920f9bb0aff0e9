"""The values of an expression: whole tensors that are not read yet, NumPy arrays, and numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.debugger.tensors.expression_limits import Budget
from tb_netdebug.debugger.tensors.slices import pieces
from tb_netdebug.debugger.workbench import Readable, WorkbenchError

Array = NDArray[Any]
Number = bool | int | float | complex

CHUNK_VALUES = 1 << 20
LARGEST_INTEGER = 1 << 63


class Whole:
    """A tensor of the workbench: statistics of the whole of it take one pass and no memory."""

    def __init__(self, readable: Readable) -> None:
        self.readable = readable
        self._array: Array | None = None
        self._summary: Summary | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.readable.entry.shape

    @property
    def is_complex(self) -> bool:
        return "complex" in self.readable.entry.dtype

    def array(self, budget: Budget) -> Array:
        if self._array is None:
            budget.take_values(self.shape, 16 if self.is_complex else 8)
            self._array = widened(self.readable.part(tuple(slice(0, length, 1) for length in self.shape)))
        return self._array

    def summary(self) -> Summary:
        if self._summary is None:
            self._summary = self.readable.summary()
        return self._summary

    def farthest(self, sign: int, budget: Budget) -> int:
        """Return the flat index of the largest value, or of the smallest with -1; the first NaN wins."""
        best, place, done = -math.inf, 0, 0
        for index in pieces(self.shape, CHUNK_VALUES):
            budget.take_time()
            part = sign * self.readable.part(index).reshape(-1).astype(np.float64)
            at = int(np.argmax(part))
            if math.isnan(part[at]):
                return done + at
            if part[at] > best:
                best, place = part[at], done + at
            done += part.size
        return place


Value = Whole | Array | Number | tuple[Any, ...]


def item_bytes(*values: Any) -> int:
    """Return the item size of results computed from these values: doubles at most, unless complex."""
    return 16 if any(np.iscomplexobj(value) for value in values) else 8


def widened(array: Array) -> Array:
    """Return half floats as float32: they have too few digits to compute with."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def plain(result: Any) -> Value:
    """Return a result of NumPy, as a number if it is a single value."""
    if isinstance(result, np.generic) or (isinstance(result, np.ndarray) and not result.ndim):
        return number(result.item())
    if isinstance(result, np.ndarray):
        return result
    return number(result)


def number(value: Any) -> Number:
    """Return the number; an integer that NumPy cannot hold becomes a float."""
    if isinstance(value, int) and abs(value) >= LARGEST_INTEGER:
        return float(value) if abs(value) < 1 << 1000 else math.inf if value > 0 else -math.inf
    if not isinstance(value, bool | int | float | complex):
        raise WorkbenchError(f"A {type(value).__name__} cannot be used in a computation.")
    return value
