"""Find and convert TensorFlow tensors: those in layer outputs, and those that the user hands in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tb_netdebug.core.records.step import Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.keras.reader import active_units
from tb_netdebug.frameworks.keras.values import array_of, item_of
from tb_netdebug.recording.containers import MOST_DEPTH, MOST_LEAVES, MOST_PARTS, Parts, share_of


def dense(value: Any) -> Any:
    """Return an ordinary tensor holding the values of a sparse or ragged one; return others unchanged.

    Duplicate indices of an IndexedSlices are summed.
    """
    if isinstance(value, tf.IndexedSlices):
        places, numbers = tf.unique(value.indices)
        return tf.math.unsorted_segment_sum(value.values, numbers, tf.size(places))
    if isinstance(value, tf.SparseTensor):
        return value.values
    if isinstance(value, tf.RaggedTensor):
        return value.flat_values
    return value


def tensors_in(
    output: Any, name: str = "", depth: int = 0, most: int = MOST_LEAVES
) -> Iterator[tuple[str, Any]]:
    """Yield the tensors of a nested output, each with its place in it: "", "[0]", "[hidden]", "[0][1]" …"""
    if isinstance(output, tf.Tensor | tf.IndexedSlices | tf.SparseTensor | tf.RaggedTensor):
        yield name, output
    elif depth < MOST_DEPTH:
        # This runs in every step: `most` keeps a huge nested output from holding it up.
        parts = parts_of(output, min(most, MOST_PARTS))
        for key, value in parts:
            yield from tensors_in(value, f"{name}[{key}]", depth + 1, share_of(most, parts))


def parts_of(output: Any, most: int) -> Parts:
    if isinstance(output, Mapping):
        return list(islice(output.items(), most))
    if isinstance(output, list | tuple):
        return list(enumerate(islice(output, most)))
    return []


def summary_of(value: Any, refuse: Callable[[str, str], None]) -> tuple[bytes, Units | None] | None:
    """Return the kernel summary and the active units of a tensor or array that the user hands in.

    Return None, and tell `refuse` why, when it has no values yet or a type that cannot be read.
    """
    if isinstance(value, tf.Tensor | tf.Variable | keras.Variable):
        value = tf.convert_to_tensor(value)
        if hasattr(value, "graph"):
            refuse("a tensor", "inside a tf.function it has no values yet")
            return None
        array = array_of(value)
    else:
        array = np.ascontiguousarray(value)
    item = item_of(array)
    if item is None:
        refuse("a tensor", f"values of type {array.dtype} cannot be read")
        return None
    (summary,) = kernel.summarize([item], 1)
    return summary, active_units(None, array, item)


def pixels_of(value: Any) -> Any:
    """Return an image that the user hands in as an array."""
    if isinstance(value, tf.Tensor | tf.Variable | keras.Variable):
        value = tf.convert_to_tensor(value)
        # float16 and bfloat16 become float32: NumPy has no bfloat16.
        value = tf.cast(value, tf.float32) if value.dtype.is_floating else value
        return value.numpy()
    return np.asarray(value)
