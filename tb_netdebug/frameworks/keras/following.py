"""Follow every operation of a training step: as it runs when eager, otherwise while it is traced.

It uses the TensorFlow hook behind `tf.debugging.enable_check_numerics`, which raises; ours never does.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_callbacks

from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.keras.layers import KerasLayer, Network, WatchedWeight, native
from tb_netdebug.frameworks.keras.operations import (
    Counts,
    NonFiniteStart,
    Operation,
    OperationFlow,
    SuspectOperation,
    is_harmless,
    word_of,
)
from tb_netdebug.frameworks.keras.tap import StepTap, graph_now
from tb_netdebug.frameworks.keras.tensors import dense
from tb_netdebug.frameworks.keras.values import array_of, item_of
from tb_netdebug.recording.frames import is_foreign, place_of
from tb_netdebug.recording.guard import Guard

FOREIGN = tuple(str(Path(module.__file__).parent) for module in (keras, tf) if module.__file__)
# Tensors by id, with the counts of their non-finite values.
Known = Mapping[int, Counts]
READING = "ReadVariableOp"
BACKWARD = "gradient_tape/"
HARMLESS = (
    "Identity",
    "Const",
    "Placeholder",
    "Reshape",
    "Shape",
    "ReadVariableOp",
    "Cast",
    "ExpandDims",
    "Squeeze",
    "StopGradient",
)
MERGED = "the compiled graph merges it with {}, so it may be one of these"


class Following:
    """Records operations while active as a context around a training step; also a `calls.CallListener`.

    Create it in the function that runs the step: frames above that function do not belong to the step.

    It stops where an optimizer begins, as the damage is done by then. In an eager step it sees bad values at
    once. For a graph the caller must supply what the tensors hold, and operations between two inspected
    tensors count as one.
    """

    def __init__(self, network: Network, guard: Guard) -> None:
        self._network = network
        self._guard = guard
        self._graph = graph_now()
        self._running: list[KerasLayer | None] = []
        self._operations: list[Operation] = []
        self._makers: dict[int, Operation] = {}
        self._bad: dict[int, Counts] = {}
        self._kept: list[Any] = []
        self._checked: list[Any] = []
        self._is_on = False
        self._outside: FrameType | None = sys._getframe(1)

    def __enter__(self) -> Following:
        op_callbacks.add_op_callback(self._operated)
        self._is_on = True
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    # ---- events ------------------------------------------------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        self._running.append(self._network.layers.get(id(layer)))

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self._running:
            self._running.pop()

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        """Ignore the call: its operations were recorded already."""

    def descends(self, target: Any, sources: Any) -> None:
        """Ignore the call: its operations will be recorded."""

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        self._stop()

    def applied(self, optimizer: Any, variables: Any) -> None:
        """Ignore the call: recording has stopped."""

    # ---- afterwards --------------------------------------------------------------------------------------

    @property
    def sees_all(self) -> bool:
        """Whether everything that the step computed or read is known, as it is for an eager step."""
        return self._graph is None

    def blamed(self, tap: StepTap, known: Known) -> NonFiniteStart | None:
        """Return where the loss, or else a gradient or an output, got its first bad value from.

        `known` holds what was read of a graph's tensors in this run; of an eager step everything is known.
        """
        bad = self._bad if self._graph is None else {key: each for key, each in known.items() if any(each)}
        flow = OperationFlow(self._makers, bad, None if self._graph is None else known.keys())
        losses = [tap.whole_loss, *(seen.output for seen in tap.losses), tap.reported_loss, tap.descended()]
        gradients = [gradient for applied in tap.applied_to for _, gradient in applied.pairs]
        outputs = [tensor for call in tap.calls for _, tensor in call.outputs]
        for ends in (losses, [dense(each) for each in gradients], outputs):
            found = flow.culprit(ends)
            if found is not None:
                return self._told(found, tap, bad, is_forward=ends is losses or ends is outputs)
        return None

    # ---- parts -------------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._outside = None
        if self._is_on:
            self._is_on = False
            op_callbacks.remove_op_callback(self._operated)

    def _operated(
        self, kind: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> None:
        """Record an operation that TensorFlow has executed or added to a graph."""
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
        if is_eager:
            # Keep the tensors, so that no other tensor gets one of their ids.
            self._kept += [*inputs, *outputs]

    def _site(self) -> str:
        """Return the user's line inside the step; "" if only TensorFlow and Keras frames are there."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self._outside:
            if not is_foreign(frame.f_code, FOREIGN):
                return place_of(frame)
            frame = frame.f_back
        return ""

    def _told(self, found: SuspectOperation, tap: StepTap, bad: Known, *, is_forward: bool) -> NonFiniteStart:
        made, counts = found.operation, found.counts
        word, masked = word_of(counts), not any(counts[1:])
        if made.kind == READING and (watched := self._read_by(made)) is not None:
            return NonFiniteStart("parameter", watched.name, "", word, "", masked_only=masked)
        others = sorted({each.kind.lower() for each in found.others if each.kind not in HARMLESS})
        rest = (made.kind.lower(), made.site, masked, MERGED.format(", ".join(others)) if others else "")
        layer = made.layer or self._forward_of(made)
        if layer is None and not is_forward:
            where = next(
                (each.name for each, tensor, _ in reversed(tap.gradients()) if id(tensor) in bad), ""
            )
            return NonFiniteStart("gradient", where, "", word, *rest)
        # A harmless operation outside of all layers, merged with one inside a layer: either may be the cause.
        is_in_doubt = is_harmless(made.kind) and any(each.layer is not None for each in found.others)
        if layer is None and is_in_doubt:
            return NonFiniteStart("unknown", "", "", word, "", why_not=rest[-1])
        if layer is None:
            loss = tap.losses[0].loss if tap.losses else None
            name = type(loss).__name__ if loss is not None else ""
            return NonFiniteStart("loss", "loss", name, word, *rest)
        what = "output" if is_forward or made.layer is not None else "gradient"
        return NonFiniteStart(what, layer.name, type(layer.layer).__name__, word, *rest)

    def _read_by(self, made: Operation) -> WatchedWeight | None:
        """Return the weight that an operation has read."""
        handle = made.inputs[0] if made.inputs else None
        # Inside a graph the handle is a placeholder: find the handle that it captured.
        if self._graph is not None:
            outside = {id(inner): outer for outer, inner in self._graph.captures}
            handle = outside.get(id(handle))
        weights = self._network.weights.values()
        return next((each for each in weights if native(each.variable).handle is handle), None)

    def _forward_of(self, made: Operation) -> KerasLayer | None:
        """Return the layer whose operation this one differentiates, found by the names in a graph."""
        _, is_backward, name = made.name.partition(BACKWARD)
        if not is_backward:
            return None
        layers: dict[str, KerasLayer] = {}
        for each in self._operations:
            if each.layer is not None:
                layers[each.name] = each.layer
                layers.setdefault(each.name.rpartition("/")[0], each.layer)
        # A gradient operation's name extends that of its forward operation: shorten it until it is known.
        while name:
            if name in layers:
                return layers[name]
            name = name.rpartition("/")[0]
        return None


def counted(tensor: Any) -> Counts | None:
    """Return the counts of non-finite values; None if there are none."""
    if not isinstance(tensor, tf.Tensor) or not tensor.dtype.is_floating:
        return None
    array = array_of(tensor)
    item = item_of(array)
    # Count only after the kernel's quick pass: nearly all tensors are finite.
    if item is None or not kernel.sum_squares([item], 1)[1]:
        return None
    values = array.astype(np.float32) if array.dtype.itemsize < 4 else array
    return int(np.isneginf(values).sum()), int(np.isposinf(values).sum()), int(np.isnan(values).sum())


def as_text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name or "")
