"""Collect what one run of a training step shows: layer calls, losses and gradients, traced or eager."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from keras.src.backend.common.global_state import get_global_attribute
from tensorflow.python import pywrap_tfe

from tb_netdebug.frameworks.keras.fusion import may_show, may_show_gradient
from tb_netdebug.frameworks.keras.layers import KerasLayer, Network, WatchedWeight
from tb_netdebug.frameworks.keras.loss_calls import LossSeen, Makers, loss_seen
from tb_netdebug.frameworks.keras.tensors import dense, tensors_in
from tb_netdebug.frameworks.keras.values import is_float
from tb_netdebug.recording.guard import Guard

if TYPE_CHECKING:
    from tb_netdebug.frameworks.keras.following import Following

# Further losses, and further tensors of a batch, are left out; steps rarely have so many.
MOST_LOSSES = 16
MOST_INPUTS = 16

# Layers that behave differently in training and in evaluation.
MODE_LAYERS = (
    keras.layers.Dropout,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.AlphaDropout,
    keras.layers.BatchNormalization,
)

VARIABLES = (keras.Variable, tf.Variable)
# A call without a tape belongs to an evaluation, not to training.
is_without_tape = pywrap_tfe.TFE_Py_TapeSetIsEmpty


@dataclass(slots=True, eq=False)
class LayerCall:
    """One call of a layer, with its inputs and outputs."""

    layer: KerasLayer
    inputs: list[tuple[str, Any]]
    outputs: list[tuple[str, Any]]
    order: int
    training: Any


@dataclass(slots=True, eq=False)
class AppliedGradients:
    """The gradients passed to one call of an optimizer."""

    optimizer: Any
    pairs: list[tuple[Any, Any]]
    scale: Any = None


@dataclass(slots=True, eq=False)
class StepTap:
    """Collects the calls of one run of a step, on that step's thread (see `calls.CallListener`).

    In a graph it runs once, while TensorFlow traces; its findings then stand for every run of that graph.
    """

    network: Network
    guard: Guard
    wants_layers: bool
    calls: list[LayerCall] = field(default_factory=list)
    losses: list[LossSeen] = field(default_factory=list)
    applied_to: list[AppliedGradients] = field(default_factory=list)
    whole_loss: Any = None
    reported_loss: Any = None
    descents: list[Any] = field(default_factory=list)
    compares_all: bool = False
    """Whether the step subtracts each prediction from every target."""
    modes: dict[str, tuple[Any, bool]] = field(default_factory=dict)
    hidden: int = 0
    """Calls in a graph inside the step, whose tensors cannot be read."""
    not_shown: dict[str, str] = field(default_factory=dict)
    rates: list[Any] = field(default_factory=list)
    looks: int = 0
    following: Following | None = None
    unfollowed: str = ""
    """Why the operations of such a step cannot be followed in any mode."""
    shown: dict[str, list[Any]] = field(default_factory=dict)
    """The content of a step in a graph, as the graph states it."""
    mode_counts: tuple[float, float] = (0.0, 0.0)
    _activations: list[tuple[LayerCall, str, Any]] | None = None
    _gradients: list[tuple[WatchedWeight, Any, Any]] | None = None
    _entered: int = 0
    _inside: int = 0
    _thread: int = field(default_factory=threading.get_ident)
    _graph: Any = field(default_factory=lambda: graph_now())
    _orders: list[int] = field(default_factory=list)
    _makers: Makers = field(default_factory=dict)

    # ---- events ------------------------------------------------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        if self._is_here():
            self._orders.append(self._entered)
            self._entered += 1

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self._is_here():
            order = self._orders.pop() if self._orders else self._entered
            self._guarded(self._take_call, layer, args, kwargs, output, order)

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        if self._is_here() and not is_without_tape():
            self._guarded(self._take_loss, loss, target, given, output)

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        if self._is_here():
            # One optimizer may call another, as one that scales the loss does: take the outermost.
            self._inside += 1
            if self._inside == 1:
                self._guarded(self._take_gradients, optimizer, gradients, variables)

    def applied(self, optimizer: Any, variables: Any) -> None:
        if self._is_here():
            self._inside = max(self._inside - 1, 0)

    def descends(self, target: Any, sources: Any) -> None:
        if self._is_here():
            self._guarded(self._take_descent, target, sources)

    def computed(self, loss: Any) -> None:
        """Take the sum of all losses of the step."""
        if self._is_here() and self._is_ours(loss):
            self.whole_loss = loss

    def reported(self, results: Any) -> None:
        """Take the "loss" that a train_step returns, unless it is the running mean of the epoch."""
        loss = results.get("loss") if isinstance(results, Mapping) else None
        if loss is None or not hasattr(loss, "graph") or not self._is_ours(loss):
            return
        if loss.shape.rank == 0 and not is_of_metric(loss):
            self.reported_loss = loss

    @property
    def graph(self) -> Any:
        """Return the graph in which the step is traced; None when the step runs eagerly."""
        return self._graph

    def is_made(self, tensor: Any) -> bool:
        """Return whether a layer produced this tensor."""
        return id(tensor) in self._makers

    def move(self, network: Network, guard: Guard) -> None:
        """Attach to another monitor, which may name layers and weights differently or not watch them."""
        self.network, self.guard = network, guard
        for call in self.calls:
            call.layer = network.layers.get(id(call.layer.layer), call.layer)
        if self._gradients is not None:
            self._gradients = [
                (network.weight_of(watched.variable) or watched, gradient, scale)
                for watched, gradient, scale in self._gradients
            ]
        self.looks = 0

    # ---- results, asked for at the end of the step -------------------------------------------------------

    def descended(self) -> Any:
        """Return the scalar whose gradients with respect to weights were taken; None if there are several."""
        # The tape may be asked several times for the gradients of one target.
        found = {id(each): each for each in self.descents}
        if len(found) != 1:
            return None
        target = self.descents[0]
        is_number = isinstance(target, tf.Tensor) and target.shape.rank == 0
        return target if is_number and self._is_ours(target) else None

    def activations(self) -> list[tuple[LayerCall, str, Any]]:
        """Return the layer outputs that may be shown; repeated calls return the same list.

        It is computed once, because later TensorFlow has our own readers in the graph, which `may_show` would
        count.
        """
        if self._activations is None:
            self._activations = self._find_activations()
        return self._activations

    def gradients(self) -> list[tuple[WatchedWeight, Any, Any]]:
        """Return (weight, gradient, loss scale) of each gradient that may be shown; computed once."""
        if self._gradients is None:
            self._gradients = self._find_gradients()
        return self._gradients

    def _find_activations(self) -> list[tuple[LayerCall, str, Any]]:
        found = []
        for call in self.calls:
            if not call.layer.is_watched:
                continue
            for place, tensor in call.outputs:
                if not is_float(tensor):
                    # Another reader would stop TensorFlow from fusing this tensor: see `fusion`.
                    continue
                if may_show(tensor):
                    found.append((call, place, tensor))
                else:
                    self.not_shown.setdefault(f"the output of {call.layer.name}{place}", FUSED)
        return found

    def _find_gradients(self) -> list[tuple[WatchedWeight, Any, Any]]:
        found = []
        for applied in self.applied_to:
            for variable, gradient in applied.pairs:
                watched = self.network.weight_of(variable)
                if watched is None or gradient is None:
                    continue
                if isinstance(gradient, tf.Tensor) and not may_show_gradient(gradient):
                    self.not_shown.setdefault(f"the gradient of {watched.name}", FUSED)
                    continue
                found.append((watched, dense(gradient), applied.scale))
        return found

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        return threading.get_ident() == self._thread and not self.guard.is_off

    def _guarded(self, look: Callable[..., None], *args: Any) -> None:
        try:
            look(*args)
        except Exception as error:
            self.guard.fault("looking at a training step", error)

    def _is_ours(self, tensor: Any) -> bool:
        """Return whether a tensor is in the step's own graph: none gets out of a loop or branch inside it."""
        return getattr(tensor, "graph", None) is self._graph

    def _take_descent(self, target: Any, sources: Any) -> None:
        """Take the target of a tape, unless its gradients are with respect to inputs, as in an attack."""
        if any(isinstance(each, VARIABLES) for each in tf.nest.flatten(sources)):
            self.descents.append(target)

    def _take_call(self, layer: Any, args: Any, kwargs: Any, output: Any, order: int) -> None:
        given = [(place, dense(tensor)) for place, tensor in tensors_in(output)]
        outputs = [(place, tensor) for place, tensor in given if self._is_ours(tensor)]
        if not outputs:
            # Count calls inside an inner graph, so that the user can be told that they are not seen.
            self.hidden += bool(given) and not is_rehearsal(given[0][1])
            return
        for _, tensor in outputs:
            if id(tensor) not in self._makers:  # the innermost layer returns first
                self._makers[id(tensor)] = tensor, layer
        if is_without_tape():
            return
        known = self.network.layers.get(id(layer))
        if known is None:
            # The layer may have been created since the last search.
            self.network.refresh()
            known = self.network.layers.get(id(layer))
        if known is None:
            return
        training = kwargs.get("training")
        if training is None:  # take the mode of the enclosing layer
            training = getattr(get_global_attribute("current_call_ctx"), "training", None)
        if isinstance(layer, MODE_LAYERS):
            is_frozen = isinstance(layer, keras.layers.BatchNormalization) and not layer.trainable
            self.modes.setdefault(known.name, (training, is_frozen))
        if self.wants_layers:
            inputs = [(place, each) for place, each in tensors_in((*args, *kwargs.values()))]
            self.calls.append(LayerCall(known, inputs, outputs, order, training))

    def _take_loss(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        if len(self.losses) >= MOST_LOSSES or not isinstance(given, tf.Tensor) or not self._is_ours(given):
            return
        seen = loss_seen(loss, target, given, output, self._makers)
        if seen is not None:
            self.losses.append(seen)

    def _take_gradients(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        if variables is None:
            variables = list(getattr(optimizer, "_trainable_variables", []))
        pairs = []
        for variable, gradient in zip(variables, gradients, strict=False):
            values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
            is_here = values is None or self._is_ours(values)
            if is_here:
                pairs.append((variable, gradient))
            else:
                self.hidden += 1
        # LossScaleOptimizer has a dynamic scale, other optimizers may have a fixed factor.
        scale = getattr(optimizer, "dynamic_scale", None)
        if scale is None:
            scale = getattr(optimizer, "loss_scale_factor", None)
        if pairs:
            self._take_rate(optimizer)
            # Read a dynamic scale now, before the optimizer changes it.
            read = tf.identity(scale.value) if isinstance(scale, keras.Variable) else scale
            self.applied_to.append(AppliedGradients(optimizer, pairs, read))

    def _take_rate(self, optimizer: Any) -> None:
        """Take the learning rate of this step, but call no function of the user's: it may count calls."""
        rate = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_learning_rate", None)
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            rate = optimizer.learning_rate
        elif isinstance(rate, keras.Variable):
            rate = rate.value.read_value()
        else:
            return
        self.rates.append(tf.convert_to_tensor(rate))


FUSED = "TensorFlow computes it in one operation with what follows, and reading it would change the numbers"


def graph_now() -> Any:
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


def is_of_metric(tensor: Any) -> bool:
    """Return whether a tensor is the result of a Keras mean metric: a sum over batches by their number."""
    operation = tensor.op
    while operation.type in ("Identity", "Cast"):
        operation = operation.inputs[0].op
    return bool(operation.type == "DivNoNan")


def is_rehearsal(tensor: Any) -> bool:
    """Return whether Keras only infers shapes here, in a scratch graph that it discards."""
    return "scratch" in getattr(getattr(tensor, "graph", None), "name", "")
