"""Follows every operation of a training step: one by one when it runs eagerly, else while it is traced.

It uses the same hook in TensorFlow as `tf.debugging.enable_check_numerics`, which raises; here nothing does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from tb_netdebug.capture.frames import is_foreign, place_of
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.keras.counts import NEGATIVE
from tb_netdebug.capture.keras.health import counts_of
from tb_netdebug.capture.keras.layers import Layer, Network, Watched, native
from tb_netdebug.capture.keras.operations import Counts, Followed, Operation, culprit, word_of
from tb_netdebug.capture.keras.tap import Tap, graph_now
from tb_netdebug.capture.keras.values import Array, array_of, item_of
from tb_netdebug.stats import kernel

FOREIGN = tuple(str(Path(module.__file__).parent) for module in (keras, tf) if module.__file__)
READING = "ReadVariableOp"
BACKWARD = "gradient_tape/"


class Following:
    """Active as a context, and as a listener of layers (see `calls.Listener`), around a training step.

    It ends where an optimizer begins: by then the harm is done. Eagerly, what is no number is known at once;
    of a graph, `checks` are to be run with it, and `found` takes what they say.
    """

    def __init__(self, network: Network, guard: Guard) -> None:
        self._network = network
        self._guard = guard
        self._graph = graph_now()
        self._running: list[Layer | None] = []
        self._operations: list[Operation] = []
        self._makers: dict[int, Operation] = {}
        self._bad: dict[int, Counts] = {}
        self._kept: list[Any] = []
        self._checked: list[Any] = []
        self._is_on = False
        self._outside: FrameType | None = None

    def __enter__(self) -> Following:
        self._outside = sys._getframe(1)
        op_callbacks.add_op_callback(self._operated)
        self._is_on = True
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    # ---- what it is told ---------------------------------------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        self._running.append(self._network.layers.get(id(layer)))

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self._running:
            self._running.pop()

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        """Its operations have told of themselves."""

    def descends(self, target: Any, sources: Any) -> None:
        """Its operations will tell of themselves."""

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        self._stop()

    def applied(self, optimizer: Any, variables: Any) -> None:
        """Nobody listens any more."""

    # ---- afterwards --------------------------------------------------------------------------------------

    def checks(self, inputs: Sequence[Any]) -> list[Any]:
        """A row for each tensor that the step has computed, or was given (see `health.COLUMNS`)."""
        made = [tensor for operation in self._operations for tensor in operation.outputs]
        self._checked = [each for each in (*inputs, *made) if each.dtype.is_floating]
        return [tf.stack([counts_of(each, at) for at, each in enumerate(self._checked)])] if made else []

    def found(self, rows: Array) -> None:
        for tensor, row in zip(self._checked, rows[:, NEGATIVE:].astype(int).tolist(), strict=True):
            if any(row):
                self._bad[id(tensor)] = (row[0], row[1], row[2])

    def blamed(self, tap: Tap) -> Followed | None:
        """What the loss, or else the gradients, got their first bad value from."""
        losses = [tap.whole_loss, *(seen.output for seen in tap.losses)]
        gradients = [gradient for applied in tap.applied_to for _, gradient in applied.pairs]
        is_loss = any(id(each) in self._bad for each in losses)
        found = culprit(losses if is_loss else gradients, self._bad, self._makers)
        return None if found is None else self._told(*found, tap, is_forward=is_loss)

    # ---- parts -------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._outside = None
        if self._is_on:
            self._is_on = False
            op_callbacks.remove_op_callback(self._operated)

    def _operated(
        self, kind: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        """TensorFlow's word for: an operation was done, or came into a graph."""
        if graph is not self._graph:
            return
        try:
            self._take(as_text(kind), as_text(op_name), tuple(inputs or ()), tuple(outputs or ()))
        except Exception as error:
            self._guard.fault("following operations", error)

    def _take(self, kind: str, name: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
        is_eager = self._graph is None
        found = {id(each): counts for each in outputs if (counts := counted(each))} if is_eager else {}
        if is_eager and not found:
            return
        self._bad.update(found)
        layer = next((each for each in reversed(self._running) if each is not None), None)
        made = Operation(len(self._operations), kind, name, layer, self._site(), inputs, outputs)
        self._operations.append(made)
        self._makers.update((id(each), made) for each in outputs)
        if is_eager:  # so that no other tensor gets its id
            self._kept += [*inputs, *outputs]

    def _site(self) -> str:
        """The user's line inside of the step; "" when only TensorFlow and Keras are at work there."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self._outside:
            if not is_foreign(frame.f_code, FOREIGN):
                return place_of(frame)
            frame = frame.f_back
        return ""

    def _told(self, made: Operation, counts: Counts, tap: Tap, *, is_forward: bool) -> Followed:
        word, masked = word_of(counts), not any(counts[1:])
        if made.kind == READING and (watched := self._read_by(made)) is not None:
            return Followed("parameter", watched.name, "", word, "", masked_only=masked)
        layer = made.layer or self._forward_of(made)
        if layer is None and not is_forward:
            where = next(
                (each.name for each, bad, _ in reversed(tap.gradients()) if id(bad) in self._bad), ""
            )
            return Followed("gradient", where, "", word, made.kind.lower(), made.site, masked)
        if layer is None:
            loss = tap.losses[0].loss if tap.losses else None
            name = type(loss).__name__ if loss is not None else ""
            return Followed("loss", "loss", name, word, made.kind.lower(), made.site, masked)
        what = "output" if is_forward or made.layer is not None else "gradient"
        name = type(layer.layer).__name__
        return Followed(what, layer.name, name, word, made.kind.lower(), made.site, masked)

    def _read_by(self, made: Operation) -> Watched | None:
        """The weight that an operation has read."""
        handle = made.inputs[0] if made.inputs else None
        if self._graph is not None:
            outside = {id(inner): outer for outer, inner in self._graph.captures}
            handle = outside.get(id(handle))
        weights = self._network.weights.values()
        return next((each for each in weights if native(each.variable).handle is handle), None)

    def _forward_of(self, made: Operation) -> Layer | None:
        """The layer whose operation this one is the way back of; graphs tell by their names."""
        _, is_backward, name = made.name.partition(BACKWARD)
        if not is_backward:
            return None
        layers: dict[str, Layer] = {}
        for each in self._operations:
            if each.layer is not None:
                layers[each.name] = each.layer
                layers.setdefault(each.name.rpartition("/")[0], each.layer)
        while name:
            if name in layers:
                return layers[name]
            name = name.rpartition("/")[0]
        return None


def counted(tensor: Any) -> Counts | None:
    """None when all values are numbers."""
    if not isinstance(tensor, tf.Tensor) or not tensor.dtype.is_floating:
        return None
    array = array_of(tensor)
    item = item_of(array)
    if item is None or not kernel.sum_squares([item], 1)[1]:
        return None
    values = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    return int(np.isneginf(values).sum()), int(np.isposinf(values).sum()), int(np.isnan(values).sum())


def as_text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name or "")
