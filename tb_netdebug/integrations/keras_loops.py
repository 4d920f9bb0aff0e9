"""Loops of a program's own with TensorFlow's GradientTape: which models, when a step ends, and the loss."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function.polymorphic_function import Function

from tb_netdebug.capture.judge import FindingError
from tb_netdebug.capture.keras.calls import leave, listen

if TYPE_CHECKING:
    from tb_netdebug.capture.zero_code.driver import ZeroCode
    from tb_netdebug.integrations.keras_trainings import Followed, KerasDiscovery

MOST_OUTPUTS = 64


class TapeLoops:
    """A step ends when an optimizer has moved its weights, or when the tf.function in which it does returns.

    By its first step a training is found, so that one is not recorded.
    """

    def __init__(self, zero_code: ZeroCode, discovery: KerasDiscovery) -> None:
        self._zero = zero_code
        self._discovery = discovery
        self._thread = threading.get_ident()
        self._inside = 0
        self._loss: Any = None
        self._functions: list[Any] = []
        self._stepping: dict[int, tuple[weakref.ref[Any], Any, list[Any]]] = {}
        self._by_optimizer: dict[int, tuple[Any, Followed]] = {}
        self._gradient, self._call = tf.GradientTape.gradient, Function.__call__
        tf.GradientTape.gradient = self._hearing_gradient(self._gradient)
        Function.__call__ = self._hearing_call(self._call)
        listen(self)

    def close(self) -> None:
        leave(self)
        tf.GradientTape.gradient, Function.__call__ = self._gradient, self._call
        self._by_optimizer.clear()
        self._stepping.clear()

    # ---- what Keras's calls tell (see `calls.Listener`) --------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        """Not looked at here."""

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Not looked at here."""

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        """Not looked at here: an evaluation has losses, too."""

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        if self._is_here():
            self._inside += 1
            if self._inside == 1 and not tf.executing_eagerly() and self._functions:
                outermost, weights = self._functions[0], weights_of(optimizer, variables)
                self._stepping[id(outermost)] = weakref.ref(outermost), optimizer, weights

    def applied(self, optimizer: Any, variables: Any) -> None:
        if not self._is_here() or not self._inside:
            return
        self._inside -= 1
        if not self._inside and tf.executing_eagerly() and not self._functions:
            loss, self._loss = self._loss, None
            self._ended(optimizer, weights_of(optimizer, variables), loss)

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        is_ours = threading.get_ident() == self._thread and not self._discovery.is_in_fit
        return is_ours and not self._zero.is_off

    def _hearing_gradient(self, original: Any) -> Any:
        def gradient(tape: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            if self._is_here() and tf.executing_eagerly():
                self._loss = number_in(target)
            return original(tape, target, *args, **kwargs)

        gradient.__wrapped__ = original  # type: ignore[attr-defined]
        return gradient

    def _hearing_call(self, original: Any) -> Any:
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

        __call__.__wrapped__ = original  # type: ignore[attr-defined]
        return __call__

    def _returned(self, function: Any, result: Any) -> None:
        found = self._stepping.get(id(function))
        if found is not None and found[0]() is function:
            followed = self._ended(found[1], found[2], number_in(result))
            taps = getattr(getattr(followed, "adapter", None), "_loop", None)
            if taps is not None:
                taps.is_hidden = True  # what it has traced was before our time, and is told as not seen

    def _ended(self, optimizer: Any, weights: list[Any], loss: Any) -> Followed | None:
        known = self._by_optimizer.get(id(optimizer))
        if known is not None and known[1].training.is_open:
            try:
                known[1].training.step(loss, {})
            except FindingError:
                raise
            except Exception as error:
                self._zero.fault("ending a step", error)
            return known[1]
        models = named(owners_of(weights))
        followed = self._discovery.training_of(models, optimizer) if models else None
        if followed is not None:
            self._by_optimizer[id(optimizer)] = optimizer, followed
        return followed


def weights_of(optimizer: Any, variables: Any) -> list[Any]:
    return list(variables if variables is not None else getattr(optimizer, "_trainable_variables", []))


def number_in(value: Any) -> Any:
    """The loss in what is differentiated or returned: what is called so, or the first single number."""
    if isinstance(value, dict) and "loss" in value:
        value = value["loss"]
    tensors = [each for each in tf.nest.flatten(value)[:MOST_OUTPUTS] if isinstance(each, tf.Tensor)]
    for each in tensors:
        has_value = not hasattr(each, "graph") and each.dtype.is_floating
        if has_value and each.shape.num_elements() == 1:
            return float(np.asarray(each.numpy(), np.float64).reshape(()))
    return None


def owners_of(weights: Sequence[Any]) -> list[Any]:
    """The outermost layers that hold these weights: one that has all of them, or as few as it takes."""
    wanted = {id(each) for each in weights}
    kinds: dict[type, bool] = {}
    layers = [
        each for each in gc.get_objects() if is_kind_of_layer(type(each), kinds) and "_layers" in vars(each)
    ]
    held = {id(each): wanted & {id(one) for one in each.trainable_variables} for each in layers}
    below = {id(child) for each in layers if held[id(each)] for child in each._layers}
    outermost = [each for each in layers if held[id(each)] and id(each) not in below]
    outermost.sort(key=lambda each: (-len(held[id(each)]), len(each.trainable_variables)))
    found, missing = [], set(wanted)
    for each in outermost:
        if held[id(each)] & missing:
            found.append(each)
            missing -= held[id(each)]
    return found


def is_kind_of_layer(kind: type, known: dict[type, bool]) -> bool:
    """Classes are asked, not objects: a lazy proxy would load what it stands for."""
    found = known.get(kind)
    if found is None:
        found = known[kind] = issubclass(kind, keras.layers.Layer)
    return found


def named(models: Sequence[Any]) -> dict[str, Any]:
    """As Keras calls them; a single one needs no name."""
    if len(models) == 1:
        return {"": models[0]}
    found: dict[str, Any] = {}
    for model in models:
        name, number = model.name, 1
        while name in found:
            number += 1
            name = f"{model.name}-{number}"
        found[name] = model
    return found
