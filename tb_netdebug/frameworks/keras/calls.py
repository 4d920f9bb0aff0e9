"""Hook Keras's layers, losses and optimizers, and TensorFlow's tapes, while anyone listens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import keras
from keras import optimizers

from tb_netdebug.frameworks.keras.autograph import unconverted

LAYER, LOSS = keras.layers.Layer, keras.losses.Loss
OPTIMIZERS = (optimizers.Optimizer, optimizers.LossScaleOptimizer)


class CallListener(Protocol):
    """Receives every call in the process and ignores those that are not its business."""

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        """Handle a layer that is about to be called."""

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Handle a layer that has been called, with its output."""

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        """Handle a loss that has been computed."""

    def descends(self, target: Any, sources: Any) -> None:
        """Handle a target whose gradients with respect to the sources a GradientTape is about to compute."""

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        """Handle an optimizer that is about to update the variables."""

    def applied(self, optimizer: Any, variables: Any) -> None:
        """Handle an optimizer that has updated the variables."""


# Replaced, never modified: the hooks iterate over it without the lock.
_listeners: tuple[CallListener, ...] = ()
_originals: list[tuple[type, str, Any]] = []
_lock = threading.RLock()


@contextmanager
def listening(listener: CallListener) -> Iterator[None]:
    """Register the listener for the duration of the block."""
    listen(listener)
    try:
        yield
    finally:
        leave(listener)


def listen(listener: CallListener) -> None:
    """Register a listener; the first one installs the hooks."""
    global _listeners
    with _lock:
        if not _listeners:
            _put_on()
        _listeners = (*_listeners, listener)


def leave(listener: CallListener) -> None:
    """Unregister a listener; the last one removes the hooks. Harmless for one that is not registered."""
    global _listeners
    with _lock:
        before = _listeners
        _listeners = tuple(each for each in before if each is not listener)
        if before and not _listeners:
            _take_off()


def _put_on() -> None:
    _hook(LAYER, "__call__", _layer_hook)
    _hook(LOSS, "__call__", _loss_hook)
    for kind in defining(OPTIMIZERS, "apply"):
        _hook(kind, "apply", _optimizer_hook)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        _hook(tf.GradientTape, "gradient", _tape_hook)


def defining(kinds: tuple[type, ...], name: str) -> list[type]:
    """Return the classes, among these and their bases, that define the method themselves."""
    found = {above: None for kind in kinds for above in kind.__mro__ if name in vars(above)}
    return list(found)


def _hook(kind: type, name: str, make: Callable[[Any], Any]) -> None:
    original = vars(kind)[name]
    _originals.append((kind, name, original))
    setattr(kind, name, make(original))


def _take_off() -> None:
    while _originals:
        kind, name, original = _originals.pop()
        setattr(kind, name, original)


def _layer_hook(original: Any) -> Any:
    @unconverted
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        for listener in _listeners:
            listener.entered(self, args, kwargs)
        output = original(self, *args, **kwargs)
        for listener in _listeners:
            listener.left(self, args, kwargs, output)
        return output

    return __call__


def _loss_hook(original: Any) -> Any:
    @unconverted
    def __call__(self: Any, y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        output = original(self, y_true, y_pred, *args, **kwargs)
        for listener in _listeners:
            listener.lost(self, y_true, y_pred, output)
        return output

    return __call__


def _tape_hook(original: Any) -> Any:
    @unconverted
    def gradient(self: Any, target: Any, sources: Any, *args: Any, **kwargs: Any) -> Any:
        for listener in _listeners:
            listener.descends(target, sources)
        return original(self, target, sources, *args, **kwargs)

    return gradient


def _optimizer_hook(original: Any) -> Any:
    @unconverted
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        # `grads` may be a generator, and both the listeners and Keras read it.
        grads = list(grads)
        variables = list(trainable_variables) if trainable_variables is not None else None
        for listener in _listeners:
            listener.applies(self, grads, variables)
        result = original(self, grads, variables)
        for listener in _listeners:
            listener.applied(self, variables)
        return result

    return apply


@contextmanager
def heard(model: Any, computed: Callable[[Any], None]) -> Iterator[None]:
    """Pass each result of `model.compute_loss` to `computed` for the duration of the block."""
    original = model.compute_loss

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        loss = original(*args, **kwargs)
        computed(loss)
        return loss

    before = model.__dict__.get("compute_loss")
    model.__dict__["compute_loss"] = compute_loss
    try:
        yield
    finally:
        if before is None:
            model.__dict__.pop("compute_loss", None)
        else:
            model.__dict__["compute_loss"] = before
