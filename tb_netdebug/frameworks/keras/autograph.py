"""TensorFlow's translator of Python into graphs, which our own functions have no need of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import keras

Function = TypeVar("Function", bound=Callable[..., Any])


def unconverted(function: Function) -> Function:
    """AutoGraph leaves the function as it is: only what it calls is the user's."""
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return cast("Function", tf.autograph.experimental.do_not_convert(function))
