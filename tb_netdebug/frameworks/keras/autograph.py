"""Keep AutoGraph, TensorFlow's translator from Python to graphs, away from our own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import keras

Function = TypeVar("Function", bound=Callable[..., Any])


def unconverted(function: Function) -> Function:
    """Return the function marked for AutoGraph to leave alone: only the code that it calls is the user's."""
    if keras.backend.backend() != "tensorflow":
        return function
    import tensorflow as tf

    return cast("Function", tf.autograph.experimental.do_not_convert(function))
