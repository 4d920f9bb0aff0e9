"""Hooks on modules: outputs with their units, and the times of forward and backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from tb_netdebug.capture.clock import now
from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.torch_parameters import clean, wrappers_of
from tb_netdebug.capture.torch_reader import TensorReader
from tb_netdebug.capture.torch_values import tensors_in
from tb_netdebug.records.step import Kind, Series

is_compiling = torch.compiler.is_compiling
is_grad_enabled = torch.is_grad_enabled
current_backward = torch._C._current_graph_task_id

# Their output is their input.
SKIPPED = (nn.Identity, nn.Flatten, nn.Unflatten)


def is_layer(module: nn.Module) -> bool:
    """Modules that compute something themselves: leaves, and those with parameters of their own (such as
    MultiheadAttention, whose children are never called)."""
    if isinstance(module, SKIPPED):
        return False
    return next(module.children(), None) is None or next(module.parameters(recurse=False), None) is not None


class Layer:
    """What is known of a watched module from call to call."""

    __slots__ = ("name", "seen_in_step", "series")

    def __init__(self, name: str) -> None:
        self.name = name
        self.series: dict[str, Series] = {}
        self.seen_in_step = -1

    def series_of(self, place: str) -> Series:
        known = self.series.get(place)
        if known is None:
            known = self.series[place] = Series(Kind.ACTIVATION, self.name + place)
        return known


class ActivationHooks:
    """Looks at the outputs of all layers in sampled steps.

    Only calls that record gradients count: an evaluation between training steps runs without. A layer whose
    call is repeated during backward (activation checkpointing) is looked at once.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        collector: Collector,
        reader: TensorReader,
        guard: Guard,
        wants: Callable[[str], bool],
    ) -> None:
        self._models = models
        self._collector = collector
        self._reader = reader
        self._guard = guard
        self._wants = wants
        self._layers: dict[int, tuple[nn.Module, Callable[[nn.Module, Any, Any], None]]] = {}
        self._hooks: list[Any] = []

    def find(self) -> None:
        """Finds layers that are not known yet; call it again when the model has grown."""
        for prefix, model in self._models.items():
            wrappers = wrappers_of(model)
            for name, module in model.named_modules():
                full = clean(name, wrappers) or type(module).__name__
                full = f"{prefix}/{full}" if prefix else full
                if id(module) not in self._layers and is_layer(module) and self._wants(full):
                    self._layers[id(module)] = (module, self._hook_of(Layer(full)))
        if self._hooks:
            self.arm(False)
            self.arm(True)

    def arm(self, is_armed: bool) -> None:
        """Hooks are there in sampled steps only: even an idle one costs each call of its module 2 µs."""
        if is_armed and not self._hooks:
            self._hooks = [module.register_forward_hook(hook) for module, hook in self._layers.values()]
        elif not is_armed and self._hooks:
            for handle in self._hooks:
                handle.remove()
            self._hooks = []

    def __len__(self) -> int:
        return len(self._layers)

    def close(self) -> None:
        self.arm(False)

    def _hook_of(self, layer: Layer) -> Callable[[nn.Module, Any, Any], None]:
        collector, guard, look = self._collector, self._guard, self._look

        def watch_output(module: nn.Module, _: Any, output: Any) -> None:
            # The compiler sees the first line as a constant and leaves the rest out of its graph.
            if is_compiling() or not collector.sampling or not is_grad_enabled():
                return
            if guard.is_off:
                return
            started = now()
            try:
                look(layer, module, output)
            except Exception as error:
                guard.fault(f"looking at the output of {layer.name}", error)
            collector.charge(started)

        return watch_output

    def _look(self, layer: Layer, module: nn.Module, output: Any) -> None:
        step = self._collector.step
        if current_backward() == -1:
            layer.seen_in_step = step
        elif layer.seen_in_step == step:
            return  # computed again for backward
        for place, tensor in tensors_in(output):
            if tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized:
                self._reader.activation(layer.series_of(place), tensor, module)
