"""The debugger's tensor source for a Keras run on TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from tb_netdebug.frameworks.keras.layers import WatchedWeight, native
from tb_netdebug.frameworks.keras.loop import LoopTap
from tb_netdebug.frameworks.keras.optimizers import Optimizers
from tb_netdebug.frameworks.keras.stepping.source import Array, Shown, TensorSource
from tb_netdebug.frameworks.keras.stepping.visible_tensors import owner
from tb_netdebug.frameworks.keras.steps import TrainSteps
from tb_netdebug.frameworks.keras.tap import is_without_tape
from tb_netdebug.frameworks.keras.tensors import dense, tensors_in
from tb_netdebug.frameworks.keras.traced import TracedRun
from tb_netdebug.frameworks.keras.values import array_of
from tb_netdebug.frameworks.keras.variables import value_of

NUMBERLESS = (tf.string, tf.variant, tf.resource)
GRAPH = (
    "The training step is one TensorFlow graph, so the run cannot stop within it: compile the model with "
    "run_eagerly=True to step by layer."
)
OWN_GRAPH = (
    "The training step is a tf.function, so the run cannot stop within it: call "
    "tf.config.run_functions_eagerly(True) to step by layer."
)
REPLICAS = "Several replicas train on TensorFlow's threads, so the run can stop only at whole batches."
TAPE = "TensorFlow's tape returns all gradients at once, and Keras does not report operations."


class OnTensorFlow(TensorSource):
    """Reads a run on TensorFlow: `steps` of `fit` and `train_on_batch`, or `loop`, a custom one."""

    def __init__(self, steps: Sequence[TrainSteps], loop: LoopTap, optimizers: Optimizers) -> None:
        self._steps = steps
        self._loop = loop
        self._optimizers = optimizers
        self._ran: list[TracedRun] = []

    # ---- stops -------------------------------------------------------------------------------------------

    @property
    def can(self) -> tuple[str, ...]:
        return ("batch",) if self._obstacle() else ("batch", "layer", "optimizer")

    @property
    def cannot(self) -> list[str]:
        return [each for each in (self._obstacle(), TAPE) if each]

    def _obstacle(self) -> str:
        compiled = [each for each in self._steps if each.model.compiled]
        if any(each.model.distribute_strategy.num_replicas_in_sync > 1 for each in compiled):
            return REPLICAS
        if self._loop.is_in_use:
            return OWN_GRAPH if self._loop.is_hidden else ""
        return "" if all(each.is_eager for each in compiled) else GRAPH

    def is_training(self) -> bool:
        return tf.executing_eagerly() and not is_without_tape()

    # ---- results of a graph ------------------------------------------------------------------------------

    def show_all(self, wanted: bool) -> None:
        for each in self._steps:
            each.shows_all = wanted

    def has_run(self, ran: list[TracedRun]) -> None:
        """Take the runs of a batch that ran in a graph; an eager run has reported itself by its calls."""
        self._ran = [] if any(each.is_eager for each in self._steps) else ran

    def shown(self) -> Shown:
        for ran in self._ran:
            yield from shown_by(ran)

    def end_batch(self) -> None:
        self._ran = []

    def optimizers(self) -> list[Any]:
        return self._optimizers.known()

    # ---- tensors -----------------------------------------------------------------------------------------

    def tensors_in(self, value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
        for place, tensor in tensors_in(value, name):
            found = dense(tensor)
            if not hasattr(found, "graph") and found.dtype not in NUMBERLESS:
                yield place, found

    def array(self, tensor: Any) -> Array:
        return array_of(tensor)

    def device(self, tensor: Any) -> str:
        kind, _, number = tensor.device.rpartition("device:")[2].lower().partition(":")
        return kind if kind == "cpu" or not number else f"{kind}:{number}"

    def present(self, variable: Any) -> Any:
        return value_of(native(variable))

    def held(self, watched: WatchedWeight) -> Any:
        """Return the weight's current value, which stays: TensorFlow copies a buffer before changing it."""
        return self.present(watched.variable)


def shown_by(ran: TracedRun) -> Shown:
    """Yield what a run has shown, by the names that eager calls would have given."""
    tap, shown, scale = ran.tap, ran.shown(), ran.first("scale")
    for number, tensor in enumerate(shown.get("inputs", [])):
        yield "batch", str(number), None, tensor
    for (call, place, _), tensor in zip(tap.activations(), shown.get("activations", []), strict=False):
        yield "output", call.layer.name + place, call.layer.name, tensor
    for name, kind in (("targets", "label"), ("values", "loss")):
        for number, tensor in enumerate(shown.get(name, [])):
            yield kind, str(number), None, tensor
    for (watched, _, _), tensor in zip(tap.gradients(), shown.get("gradients", []), strict=False):
        unscaled = tensor if scale is None else tf.cast(tensor, tf.float32) / tf.cast(scale, tf.float32)
        yield "gradient", watched.name, owner(watched), unscaled
    if ran.loss is not None:
        yield "loss", "loss", None, ran.loss
