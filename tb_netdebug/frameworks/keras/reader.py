"""Turn the tensors that a step has shown into samples."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from tb_netdebug.core.records.step import Series, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.keras.layers import band, unit_dim
from tb_netdebug.frameworks.keras.values import Array, array_of, item_of
from tb_netdebug.recording.collector import StepCollector

# The head of a packed summary: six counts, then minimum, maximum, sum and sum of squares.
_HEADER = struct.Struct("<6Q4d")


class KerasTensorReader:
    """Turns eager tensors into samples; `refuse` is told once what cannot be read."""

    def __init__(self, collector: StepCollector, refuse: Callable[[str, str], None], threads: int) -> None:
        self._collector = collector
        self._refuse = refuse
        self._threads = threads

    def sample(self, named: Sequence[tuple[Series, Any]], *, keep: bool = True) -> list[bytes | None]:
        """Summarize many tensors in one kernel call, and record them as samples if `keep`.

        The result has None for each tensor that cannot be read.
        """
        arrays = [array_of(tensor) for _, tensor in named]
        items = [item_of(array) for array in arrays]
        read = iter(kernel.summarize([item for item in items if item is not None], self._threads))
        found: list[bytes | None] = []
        for (series, _), item, array in zip(named, items, arrays, strict=True):
            if item is None:
                self._refuse(series.name, f"values of type {array.dtype} cannot be read")
            summary = next(read) if item is not None else None
            if keep and summary is not None:
                self._collector.sample(series, summary)
            found.append(summary)
        return found

    def activations(
        self, named: Sequence[tuple[Series, Any, Any]], *, keep: bool = True
    ) -> list[bytes | None]:
        """Summarize layer outputs, each with its series, and record them with the activity of their units."""
        arrays = [array_of(tensor) for _, tensor, _ in named]
        items = [item_of(array) for array in arrays]
        read = iter(kernel.summarize([item for item in items if item is not None], self._threads))
        found: list[bytes | None] = []
        for (series, _, layer), item, array in zip(named, items, arrays, strict=True):
            summary = next(read) if item is not None else None
            if keep and summary is not None and item is not None:
                self._collector.sample(series, summary, active_units(layer, array, item))
            found.append(summary)
        return found


def active_units(layer: Any, array: Array, item: tuple[int, int, int]) -> Units | None:
    dim = unit_dim(layer, array.shape)
    if dim is None or not array.size:
        return None
    units = array.shape[dim]
    inner = 1
    for size in array.shape[dim + 1 :]:
        inner *= size
    address, count, code = item
    bits = kernel.active_units(address, code, count // (units * inner), units, inner, *band(layer))
    return Units(units, bits)


def squares_in(summary: bytes) -> tuple[float, int]:
    """Return the sum of squares of the finite values, and the number of the others."""
    _, nan, pos_inf, neg_inf, _, _, _, _, _, squares = _HEADER.unpack_from(summary)
    return squares, nan + pos_inf + neg_inf


def counts_in(summary: bytes) -> tuple[int, int, int]:
    """Return how many values are -infinity, +infinity and NaN."""
    _, nan, pos_inf, neg_inf, *_ = _HEADER.unpack_from(summary)
    return neg_inf, pos_inf, nan
