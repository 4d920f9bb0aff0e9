"""Variables of TensorFlow, and their values at a moment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

from tb_netdebug.frameworks.keras.coverage import is_trainable
from tb_netdebug.frameworks.keras.layers import Network, WatchedWeight, native
from tb_netdebug.frameworks.keras.weights import Held


def moved(network: Network) -> list[WatchedWeight]:
    """The weights that a step may change."""
    return [each for each in network.weights.values() if is_trainable(each)]


def held(watched: Iterable[WatchedWeight]) -> Held:
    """Not copied where they lie in host memory: TensorFlow copies what it is to change while we look."""
    return [(each, value_of(native(each.variable))) for each in watched]


def value_of(variable: Any) -> Any:
    if type(variable) is ResourceVariable:  # a fifth of the time of what `read_value` does
        return tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=variable.dtype)
    return variable.read_value()
