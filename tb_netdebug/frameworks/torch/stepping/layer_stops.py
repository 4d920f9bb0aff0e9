"""Stops before and after the call of each layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from tb_netdebug.debugger.place import AFTER, BEFORE, FORWARD, Place
from tb_netdebug.frameworks.torch.hooks import after_forward, before_forward
from tb_netdebug.frameworks.torch.stepping.kept import KeptTensors
from tb_netdebug.frameworks.torch.stepping.layers import SteppedLayer, SteppedLayers
from tb_netdebug.frameworks.torch.stepping.visits import Visits, current_backward, is_compiling

is_grad_enabled = torch.is_grad_enabled


class LayerStops:
    """Hooks on all layers, which also note the tensors that go in and out.

    They may be put on and taken off while layers run. torch iterates over copies of its hook lists: a hook
    that was removed is called once more, and a new one only from the next call on. A call that is repeated in
    the backward pass (activation checkpointing) does not stop again.
    """

    def __init__(
        self,
        layers: SteppedLayers,
        visits: Visits,
        kept: KeptTensors,
        *,
        is_in_training_call: Callable[[], bool],
        goes_in: Callable[[SteppedLayer], None],
        came_out: Callable[[SteppedLayer, Any], None],
    ) -> None:
        self._layers = layers
        self._visits = visits
        self._kept = kept
        self._is_in_training_call = is_in_training_call
        self._goes_in = goes_in
        self._came_out = came_out
        self._hooks: dict[int, tuple[SteppedLayer, list[Any]]] = {}
        self.tells = False

    def put_on(self) -> None:
        """Register hooks on all layers, including those that came after the last call."""
        wanted = {id(layer.module): layer for layer in self._layers.all() if layer.obstacle is None}
        for key in [key for key, (layer, _) in self._hooks.items() if not is_same(layer, wanted.get(key))]:
            self._remove(key)
        for key, layer in wanted.items():
            if key not in self._hooks:
                self._hooks[key] = (
                    layer,
                    [
                        before_forward(layer.module, partial(self._before, layer), with_kwargs=True),
                        after_forward(layer.module, partial(self._after, layer)),
                    ],
                )

    def take_off(self) -> None:
        for key in list(self._hooks):
            self._remove(key)

    def _remove(self, key: int) -> None:
        for hook in self._hooks.pop(key)[1]:
            hook.remove()

    def _before(self, layer: SteppedLayer, module: nn.Module, args: Any, kwargs: Any = None) -> None:
        if is_compiling() or not self._is_followed(layer):
            return
        try:
            self._kept.put_inputs(layer, args, kwargs or {})
            self._goes_in(layer)
        except Exception as error:
            self._visits.guard.fault(f"looking at the input of {layer.name}", error)
        if self.tells:
            self._visits.visit(Place(FORWARD, layer.name, layer.class_name, BEFORE))

    def _after(self, layer: SteppedLayer, module: nn.Module, args: Any, output: Any) -> None:
        if is_compiling() or not self._is_followed(layer):
            return
        try:
            self._kept.put_outputs(layer, output)
            self._came_out(layer, output)
        except Exception as error:
            self._visits.guard.fault(f"looking at the output of {layer.name}", error)
        if self.tells:
            self._visits.visit(Place(FORWARD, layer.name, layer.class_name, AFTER))

    def _is_followed(self, layer: SteppedLayer) -> bool:
        if not self._visits.are_wanted or current_backward() != -1 or id(layer.module) not in self._hooks:
            return False
        return is_grad_enabled() or self._is_in_training_call()


def is_same(one: SteppedLayer, other: SteppedLayer | None) -> bool:
    return other is not None and one.module is other.module and one.name == other.name
