"""Collect what Keras's own calls show of one step on torch or JAX: layers, losses and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.backend.common.global_state import get_global_attribute

from tb_netdebug.frameworks.keras.backends.standins import BackendNetwork, Optimizer, Read, Shown, tensors_in
from tb_netdebug.frameworks.keras.layers import KerasLayer, WatchedWeight
from tb_netdebug.frameworks.keras.loss_calls import LossSeen, Makers, loss_seen
from tb_netdebug.frameworks.keras.values import is_float
from tb_netdebug.recording.guard import Guard

MOST_LOSSES = 16

# Layers that behave differently in training and in evaluation.
MODE_LAYERS = (
    keras.layers.Dropout,
    keras.layers.GaussianDropout,
    keras.layers.GaussianNoise,
    keras.layers.AlphaDropout,
    keras.layers.BatchNormalization,
)


@dataclass(slots=True, eq=False)
class EagerLayerCall:
    """One call of a layer, with its inputs and outputs."""

    layer: KerasLayer
    inputs: list[tuple[str, Shown]]
    outputs: list[tuple[str, Shown]]
    order: int
    training: Any


@dataclass(slots=True, eq=False)
class EagerAppliedGradients:
    """The gradients passed to one call of an optimizer, by weight."""

    optimizer: Optimizer
    pairs: list[tuple[Any, Any]]


class EagerTap:
    """Collects calls of layers and losses from `begin` to the end of a step (see `calls.CallListener`).

    `is_ours` returns whether a tensor belongs to the training: not to an evaluation, and not to an inner
    function of the backend from which nothing gets out.
    """

    unfollowed = "operations are followed only on TensorFlow"

    def __init__(
        self, network: BackendNetwork, guard: Guard, read: Read, is_ours: Callable[[Any], bool]
    ) -> None:
        self.network = network
        self.guard = guard
        self._read = read
        self._is_ours = is_ours
        self.mode_counts = (0.0, 0.0)
        self.begin(wants_layers=False, wants_losses=False)

    def begin(self, *, wants_layers: bool, wants_losses: bool) -> None:
        """Start a new step, with nothing in it yet."""
        self._wants_layers = wants_layers
        self._wants_losses = wants_losses
        self.calls: list[EagerLayerCall] = []
        self.losses: list[LossSeen] = []
        self.applied_to: list[EagerAppliedGradients] = []
        self.modes: dict[str, tuple[Any, bool]] = {}
        self.looks = 0  # counted by KerasCoverage
        self._shown: dict[int, Shown] = {}
        self._makers: Makers = {}
        self._entered = 0
        self._orders: list[int] = []

    def move(self, network: BackendNetwork, guard: Guard) -> None:
        """Attach to another monitor, which may name layers differently."""
        self.network, self.guard = network, guard
        for call in self.calls:
            call.layer = network.layers.get(id(call.layer.layer), call.layer)
        self.looks = 0

    # ---- events ------------------------------------------------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        self._orders.append(self._entered)
        self._entered += 1

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        order = self._orders.pop() if self._orders else self._entered
        if self._wants_layers or self._wants_losses:
            self._guarded(self._take_call, layer, args, kwargs, output, order)

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        if self._wants_losses:
            self._guarded(self._take_loss, loss, target, given, output)

    def descends(self, target: Any, sources: Any) -> None:
        """Ignore it: only TensorFlow has tapes."""

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        """Ignore it: the owner of this tap knows its optimizers."""

    def applied(self, optimizer: Any, variables: Any) -> None:
        """Ignore it, like `applies`."""

    # ---- what it shows -----------------------------------------------------------------------------------

    def activations(self) -> list[tuple[EagerLayerCall, str, Shown]]:
        """Return the outputs of watched layers."""
        return [
            (call, place, shown)
            for call in self.calls
            for place, shown in call.outputs
            if call.layer.is_watched and is_float(shown)
        ]

    def gradients(self) -> list[tuple[WatchedWeight, Any, None]]:
        """Return weight and gradient in the order of the weights; there is no scale."""
        return [
            (watched, gradient, None)
            for applied in self.applied_to
            for weight, gradient in applied.pairs
            if gradient is not None and (watched := self.network.weight_of(weight)) is not None
        ]

    def losses_shown(self) -> dict[str, list[Any]]:
        return {
            "given": [seen.given for seen in self.losses],
            "targets": [seen.target for seen in self.losses],
            "values": [seen.output for seen in self.losses],
            "behind": [seen.behind for seen in self.losses],
        }

    def take_calls(self, calls: Sequence[tuple[Any, Any, Any]]) -> None:
        """Take calls of layers, in order, that turned out to be of interest only later."""
        for order, (layer, given, output) in enumerate(calls):
            known = self.network.layers.get(id(layer))
            if known is not None:
                inputs, outputs = (
                    [(place, self.shown(each)) for place, each in tensors_in(some)]
                    for some in (given, output)
                )
                self.calls.append(EagerLayerCall(known, inputs, outputs, order, None))

    # ---- parts -------------------------------------------------------------------------------------------

    def shown(self, tensor: Any) -> Shown:
        """Return the wrapper of a tensor, always the same one, so that data flow can be traced by its id."""
        found = self._shown.get(id(tensor))
        if found is None:
            found = self._shown[id(tensor)] = Shown(tensor, self._read)
        return found

    def _guarded(self, look: Callable[..., None], *args: Any) -> None:
        if self.guard.is_off:
            return
        try:
            look(*args)
        except Exception as error:
            self.guard.fault("looking at a training step", error)

    def _take_call(self, layer: Any, args: Any, kwargs: Any, output: Any, order: int) -> None:
        outputs = [
            (place, self.shown(tensor)) for place, tensor in tensors_in(output) if self._is_ours(tensor)
        ]
        if not outputs:
            return
        for _, shown in outputs:
            self._makers.setdefault(id(shown), (shown, layer))  # the innermost layer returns first
        known = self.network.layers.get(id(layer))
        if known is None:
            return
        training = kwargs.get("training")
        if training is None:  # take the mode of the enclosing layer
            training = getattr(get_global_attribute("current_call_ctx"), "training", None)
        if isinstance(layer, MODE_LAYERS):
            is_frozen = isinstance(layer, keras.layers.BatchNormalization) and not layer.trainable
            self.modes.setdefault(known.name, (training, is_frozen))
        if self._wants_layers:
            inputs = [(place, self.shown(each)) for place, each in tensors_in((*args, *kwargs.values()))]
            self.calls.append(EagerLayerCall(known, inputs, outputs, order, training))

    def _take_loss(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        if len(self.losses) >= MOST_LOSSES or not keras.ops.is_tensor(given):
            return
        if not (self._is_ours(given) and self._is_ours(output)):
            return
        target = target if keras.ops.is_tensor(target) else keras.ops.convert_to_tensor(target)
        seen = loss_seen(loss, self.shown(target), self.shown(given), self.shown(output), self._makers)
        if seen is None:
            return
        if not seen.with_logits and seen.last_layer == "Softmax":
            # It got the probabilities that it expects, and is judged by their logarithms.
            seen.last_layer = None
        self.losses.append(seen)
