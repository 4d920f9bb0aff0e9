"""Fingerprint a batch, and measure how its features are distributed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from tb_netdebug.core.records.scalar_names import BATCH_ID
from tb_netdebug.core.records.step import Kind, Series
from tb_netdebug.frameworks.keras.reader import KerasTensorReader
from tb_netdebug.frameworks.keras.values import Array, array_of, is_float
from tb_netdebug.recording.collector import StepCollector

MOST_INPUTS = 4
# This many values tell one batch from another, unless nearly all of them are zero.
SELECTED = 1024
SELECTED_OF_SPARSE = 1 << 17
FEWEST_NONZERO = 64
MOST_FEATURES = 1024
MOST_VALUES = 1 << 17


class KerasBatches:
    """Samples `input/N` and `label/0`, and records scalars `probe/…` of the inputs."""

    def __init__(self, collector: StepCollector, reader: KerasTensorReader) -> None:
        self._collector = collector
        self._reader = reader
        self._inputs = [Series(Kind.TENSOR, f"input/{number}") for number in range(MOST_INPUTS)]
        self._label = Series(Kind.TENSOR, "label/0")
        self._follows = False

    def look(self, inputs: Sequence[Any], targets: Sequence[Any], *, is_sampled: bool) -> None:
        """Measure the batch of a step; the expensive parts run only in steps that are probed."""
        is_probed = self._collector.probing
        if is_probed or self._follows:
            self._fingerprint([array_of(each) for each in inputs])
        self._follows = is_probed
        if not is_probed:
            return
        data = [each for each in inputs if is_float(each) and each.shape.rank][:MOST_INPUTS]
        named = list(zip(self._inputs, data, strict=False))
        if is_sampled:
            label = [(self._label, each) for each in targets[:1] if each.dtype.name != "string"]
            self._reader.sample([*named, *label])
        for series, tensor in named:
            for name, value in feature_scalars(array_of(tensor)).items():
                self._collector.scalars[f"probe/{series.name}/{name}"] = value

    def _fingerprint(self, arrays: Sequence[Array]) -> None:
        if not arrays or any(array.dtype == object for array in arrays):
            return
        digest = blake2b(digest_size=8)
        for array in arrays:
            chosen = selection(array, SELECTED)
            if len(chosen) < array.size and np.count_nonzero(chosen) < FEWEST_NONZERO:
                chosen = selection(array, SELECTED_OF_SPARSE)
            digest.update(f"{array.shape}{array.dtype.char}".encode())
            digest.update(chosen.tobytes())
        # The 52 bits that a float holds exactly.
        number = int.from_bytes(digest.digest(), "little") >> 12
        self._collector.scalars[BATCH_ID] = float(number)


def selection(array: Array, most: int) -> Array:
    """Return about `most` values from all over the array, and not the same columns of each row."""
    if array.size <= 4 * most:
        return array.ravel()
    stride = array.size // most
    # A stride coprime to the row length visits all columns.
    row = array.size // max(len(array), 1)
    while math.gcd(stride, row) != 1:
        stride += 1
    return array.reshape(-1)[::stride]


def feature_scalars(array: Array) -> dict[str, float]:
    """Return the spread of a table's columns, or of a picture's channels (the last dimension)."""
    if array.ndim not in (2, 4) or array.size == 0 or array.size == array.shape[-1]:
        return {}
    rows = array.reshape(-1, array.shape[-1])
    rows = rows[:, :: max(-(-rows.shape[1] // MOST_FEATURES), 1)]
    rows = rows[:: max(-(-rows.size // MOST_VALUES), 1)].astype(np.float64)
    if len(rows) < 2 or not np.isfinite(rows).all():
        return {}
    # Values relative to the first row keep precision where the offset is large.
    first = rows[0]
    rest = rows - first
    drift = rest.mean(0)
    scales = np.sqrt(np.maximum(np.square(rest).mean(0) - np.square(drift), 0.0))
    is_constant = ~(rest != 0).any(0)
    found = {"constant_features": float(is_constant.mean())}
    used = ~is_constant & (scales > 0)
    if is_constant.all():
        found["feature_scale"] = 0.0
    if used.any():
        some, means = scales[used], (first + drift)[used]
        found["feature_scale"] = float(some.max())
        found["feature_scale_ratio"] = float(some.max() / some.min())
        found["feature_offset"] = float(np.abs(means / some).max())
    return found
