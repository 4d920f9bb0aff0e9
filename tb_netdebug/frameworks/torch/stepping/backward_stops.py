"""Stops in the backward pass: at its beginning, and when the gradients of each layer have arrived."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from tb_netdebug.debugger.place import AFTER, BACKWARD, BEFORE, Place
from tb_netdebug.frameworks.torch.stepping.kept import KeptTensors, version_of
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayer, SteppedLayers
from tb_netdebug.frameworks.torch.stepping.visits import Visits, current_backward, is_compiling
from tb_netdebug.frameworks.torch.taps import Handle, listen
from tb_netdebug.frameworks.torch.values import is_functorch_wrapped, tensors_in


class BackwardBegins:
    """Sees every torch.autograd.backward and Tensor.backward on the run's thread.

    A BackwardWatch would not do: it swallows all exceptions, including those that are meant to end the run.
    """

    def __init__(self, visits: Visits, *, begin: Callable[[Any], None], end: Callable[[], None]) -> None:
        self._visits = visits
        self._begin = begin
        self._end = end
        self._handle: Handle | None = None
        self.tells = False

    def put_on(self) -> None:
        if self._handle is None:
            self._handle = listen(torch.autograd.backward, before=self._before, after=self._after)

    def take_off(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _before(self, args: tuple[Any, ...]) -> None:
        # A nested backward pass, as in activation checkpointing, is part of the outer one.
        if is_compiling() or not self._visits.are_wanted or current_backward() != -1:
            return
        try:
            self._begin(args[0])
        except Exception as error:
            self._visits.guard.fault("looking at a backward pass", error)
        if self.tells:
            self._visits.visit(Place(BACKWARD, edge=BEFORE))

    def _after(self, args: tuple[Any, ...], _: Any) -> None:
        if not is_compiling() and self._visits.are_wanted and current_backward() == -1:
            self._end()


class Outcome:
    """An output with the layers that returned it; the outermost of them receives its gradient first."""

    __slots__ = ("layers", "seen", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.seen = weakref.ref(tensor)
        self.version = version_of(tensor)
        self.layers: list[tuple[SteppedLayer, str]] = []

    def is_of(self, tensor: Tensor) -> bool:
        return self.seen() is tensor and self.version == version_of(tensor)


class BackwardStops:
    """Hooks on outputs, registered in the forward pass, and on parameters. They change no gradient.

    A layer's AFTER stop comes when the last of its own parameters has its gradient. If some of them get none,
    it comes at the end of the pass.
    """

    def __init__(self, layers: SteppedLayers, visits: Visits, kept: KeptTensors) -> None:
        self._layers = layers
        self._visits = visits
        self._kept = kept
        self._outcomes: dict[int, Outcome] = {}
        self._hooks: list[Any] = []  # on this batch's outputs
        self._weights: dict[int, tuple[nn.Parameter, Any]] = {}
        self._owners: dict[int, list[SteppedLayer]] = {}
        self._arrived: dict[SteppedLayer, set[int]] = {}  # incomplete layers of this pass
        self.is_on = False

    def put_on(self) -> None:
        """Put hooks on all parameters, including those that came after the last call."""
        self.is_on = True
        self._owners, weights = {}, {}
        for layer in self._layers.all():
            if layer.obstacle is None:
                for weight in layer.own_parameters():
                    self._owners.setdefault(id(weight), []).append(layer)
                    weights[id(weight)] = weight
        for key in [key for key, (weight, _) in self._weights.items() if weights.get(key) is not weight]:
            self._weights.pop(key)[1].remove()
        for key, weight in weights.items():
            if key not in self._weights:
                # This hook runs once the gradient is in `.grad`, so a client can read it at the stop.
                hook = weight.register_post_accumulate_grad_hook(self._gradient_came)
                self._weights[key] = weight, hook

    def take_off(self) -> None:
        self.is_on = False
        self.end_batch()
        for _, hook in self._weights.values():
            hook.remove()
        self._weights, self._owners = {}, {}

    def end_batch(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._outcomes.clear()
        self._arrived.clear()

    def came_out(self, layer: SteppedLayer, output: Any) -> None:
        """Hook a layer's output in the forward pass."""
        if not self.is_on:
            return
        for place, tensor in tensors_in(output):
            if tensor.requires_grad and not is_functorch_wrapped(tensor):
                self._follow(layer, place, tensor)

    def begin(self) -> None:
        """Forget what arrived in an earlier pass."""
        self._arrived.clear()

    def end(self) -> None:
        """Visit the layers that are not complete: some of their parameters had no part in the loss."""
        for layer in list(self._arrived):
            del self._arrived[layer]
            self._visits.visit(Place(BACKWARD, layer.name, layer.class_name, AFTER))

    def _follow(self, layer: SteppedLayer, place: str, tensor: Tensor) -> None:
        known = self._outcomes.get(id(tensor))
        if known is None or not known.is_of(tensor):
            known = self._outcomes[id(tensor)] = Outcome(tensor)
            self._hooks.append(tensor.register_hook(partial(self._output_gradient_came, known)))
        known.layers.append((layer, place))

    def _output_gradient_came(self, outcome: Outcome, gradient: Tensor) -> None:
        if not self.is_on or not self._visits.are_wanted:
            return
        # Inner layers returned the tensor first, so backward reaches the outermost first.
        for layer, place in reversed(outcome.layers):
            try:
                self._kept.put("output_gradient", layer.name + place, gradient, module=layer.name)
            except Exception as error:
                self._visits.guard.fault(f"looking at the gradient of the output of {layer.name}", error)
            self._visits.visit(Place(BACKWARD, layer.name, layer.class_name, BEFORE))

    def _gradient_came(self, weight: Tensor) -> None:
        if not self.is_on or not self._visits.are_wanted:
            return
        for layer in self._owners.get(id(weight), ()):
            arrived = self._arrived.setdefault(layer, set())
            arrived.add(id(weight))
            if len(arrived) >= len({id(each) for each in layer.own_parameters()}):
                del self._arrived[layer]
                self._visits.visit(Place(BACKWARD, layer.name, layer.class_name, AFTER))
