"""Compute inside the graph, for next to nothing, whether a step is healthy."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tb_netdebug.frameworks.keras.counts import COLUMNS

# The gradient of a bias sums up what flows back into its layer: a NaN there shows in it, and biases are
# small. These limits bound the values that are read in every step: of one gradient, and of all.
MOST_VALUES = 1 << 12
MOST_VALUES_IN_ALL = 1 << 16
# TensorFlow's TensorDebugMode.CONCISE_HEALTH.
CONCISE_HEALTH = 3


def health_of(gradients: list[Any]) -> list[Any]:
    """Return, as a list of at most one tensor, a number that is NaN or infinite when small gradients are."""
    sizes = [(each.shape.num_elements() or MOST_VALUES_IN_ALL, each) for each in gradients]
    flat = [each for size, each in sizes if size <= MOST_VALUES and each.shape.rank == 1]
    # Without a bias, use the smallest gradient, unless that is large.
    if not flat and sizes:
        smallest, tensor = min(sizes, key=lambda each: each[0])
        flat = [tf.reshape(tensor, [-1])] if smallest < MOST_VALUES_IN_ALL else []
    if not flat:
        return []
    singles = [each if each.dtype == tf.float32 else tf.cast(each, tf.float32) for each in flat]
    return [tf.reduce_sum(singles[0] if len(singles) == 1 else tf.concat(singles, 0))]


def flags_of(outputs: list[Any], loss: list[Any], *, always: bool) -> list[Any]:
    """Return a row of counts per layer output (see COLUMNS), counted if the loss is not finite, or always."""
    real = [each if each.dtype.is_floating else tf.math.real(each) for each in outputs]

    def count() -> Any:
        return tf.stack([counts_of(each, place) for place, each in enumerate(real)])

    if not real or not (always or loss):
        return []
    if always:
        return [count()]
    is_well = tf.reduce_all(tf.math.is_finite(loss[0]))
    return [tf.cond(is_well, lambda: tf.zeros([len(real), COLUMNS], tf.float64), count)]


def counts_of(tensor: Any, place: int) -> Any:
    return tf.raw_ops.DebugNumericSummaryV2(
        input=tensor, output_dtype=tf.float64, tensor_debug_mode=CONCISE_HEALTH, tensor_id=place
    )
