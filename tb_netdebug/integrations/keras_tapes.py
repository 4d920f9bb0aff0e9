"""Custom loops with TensorFlow's GradientTape, eager or in a tf.function: finds their steps and losses."""

from __future__ import annotations

import weakref
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from tb_netdebug.integrations.keras_loops import Loops, weights_of

if TYPE_CHECKING:
    from tb_netdebug.integrations.keras_trainings import KerasDiscovery
    from tb_netdebug.training.zero_code.driver import ZeroCode

MOST_OUTPUTS = 64


class TapeLoops(Loops):
    """Loops of TensorFlow: the target that a tape differentiates is the loss.

    A tf.function that updates weights ends a step when it returns; that it updates them is seen while it is
    traced.
    """

    def __init__(self, zero_code: ZeroCode, discovery: KerasDiscovery) -> None:
        super().__init__(zero_code, discovery)
        self._loss: Any = None
        self._functions: list[Any] = []
        self._stepping: dict[int, tuple[weakref.ref[Any], Any, list[Any]]] = {}
        self._call = Function.__call__
        Function.__call__ = self._hearing_call(self._call)

    def close(self) -> None:
        super().close()
        Function.__call__ = self._call
        self._stepping.clear()

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        super().applies(optimizer, gradients, variables)
        # Tracing: the Python code of the function runs once, and its later calls do not pass here.
        if self._is_here() and self._inside == 1 and not tf.executing_eagerly() and self._functions:
            outermost, weights = self._functions[0], weights_of(optimizer, variables)
            self._stepping[id(outermost)] = weakref.ref(outermost), optimizer, weights

    def _moved(self, optimizer: Any, weights: list[Any]) -> None:
        if tf.executing_eagerly() and not self._functions:
            loss, self._loss = self._loss, None
            self._ended(optimizer, weights, loss)

    def descends(self, target: Any, sources: Any) -> None:
        if self._is_here() and tf.executing_eagerly():
            self._loss = number_in(target)

    def _hearing_call(self, original: Any) -> Any:
        @wraps(original)
        def __call__(function: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if not self._is_here():
                return original(function, *args, **kwargs)
            self._functions.append(function)
            try:
                result = original(function, *args, **kwargs)
            finally:
                self._functions.pop()
                self._inside = 0
            if not self._functions:
                self._returned(function, result)
            return result

        return __call__

    def _returned(self, function: Any, result: Any) -> None:
        found = self._stepping.get(id(function))
        if found is not None and found[0]() is function:
            followed = self._ended(found[1], found[2], number_in(result))
            taps = getattr(getattr(followed, "adapter", None), "_loop", None)
            if taps is not None:
                # Traced before the run was found, so what it computes inside is reported as not seen.
                taps.is_hidden = True


def number_in(value: Any) -> Any:
    """Return the loss in a target or result: the entry `loss`, or else the first single number."""
    if isinstance(value, dict) and "loss" in value:
        value = value["loss"]
    tensors = [each for each in tf.nest.flatten(value)[:MOST_OUTPUTS] if isinstance(each, tf.Tensor)]
    for each in tensors:
        has_value = not hasattr(each, "graph") and each.dtype.is_floating
        if has_value and each.shape.num_elements() == 1:
            return float(np.asarray(each.numpy(), np.float64).reshape(()))
    return None
