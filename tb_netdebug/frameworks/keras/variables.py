"""Read TensorFlow variables at a given moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from tb_netdebug.frameworks.keras.coverage import is_trainable
from tb_netdebug.frameworks.keras.layers import Network, WatchedWeight, native
from tb_netdebug.frameworks.keras.weights import Held


def moved(network: Network) -> list[WatchedWeight]:
    """Return the weights that a step may change: those that are trainable."""
    return [each for each in network.weights.values() if is_trainable(each)]


def held(watched: Iterable[WatchedWeight]) -> Held:
    """Return weights with their current values.

    Values in host memory are not copied: TensorFlow copies a buffer before changing it while we hold it.
    """
    return [(each, value_of(native(each.variable))) for each in watched]


def value_of(variable: Any) -> Any:
    if type(variable) is ResourceVariable:  # a fifth of the time of `read_value`
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    return variable.read_value()
