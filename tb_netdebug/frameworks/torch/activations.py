"""Forward hooks on layers: they sample the outputs and the activity of their units.

`adapter.TorchAdapter` owns them and arms them for sampled steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from tb_netdebug.core.records.step import Kind, Series
from tb_netdebug.frameworks.torch.hooks import after_forward, is_too_deep
from tb_netdebug.frameworks.torch.parameters import clean, wrappers_of
from tb_netdebug.frameworks.torch.reader import TensorReader
from tb_netdebug.frameworks.torch.values import tensors_in
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

is_compiling = torch.compiler.is_compiling
is_traced = torch._C._is_tracing  # by torch.jit.trace, which would record our operations in its graph
is_grad_enabled = torch.is_grad_enabled
current_backward = torch._C._current_graph_task_id

# Modules whose output is their input, or that are never called.
SKIPPED = (nn.Identity, nn.Flatten, nn.Unflatten, nn.ParameterList, nn.ParameterDict)


def is_layer(module: nn.Module) -> bool:
    """Return whether a module computes something itself.

    True for leaves and for modules with parameters of their own, such as MultiheadAttention, whose children
    are never called.
    """
    if isinstance(module, SKIPPED):
        return False
    return next(module.children(), None) is None or next(module.parameters(recurse=False), None) is not None


class WatchedModule:
    """The state kept for a watched module from call to call."""

    __slots__ = ("handle", "module", "name", "seen_in_step", "series", "was_called")

    def __init__(self, name: str, module: nn.Module) -> None:
        self.name = name
        self.module = module
        self.handle: Any = None
        self.was_called = False
        self.series: dict[str, Series] = {}
        self.seen_in_step = -1

    def series_of(self, place: str) -> Series:
        """Return the series of the output at `place`, always the same object: readers key on its id."""
        known = self.series.get(place)
        if known is None:
            known = self.series[place] = Series(Kind.ACTIVATION, self.name + place)
        return known


class ActivationHooks:
    """Samples the outputs of all layers in sampled steps.

    Only calls that record gradients count: an evaluation between training steps runs without them. A layer
    whose call is repeated during backward (activation checkpointing) is sampled once.
    """

    def __init__(
        self,
        models: Mapping[str, nn.Module],
        collector: StepCollector,
        reader: TensorReader,
        guard: Guard,
        wants: Callable[[str], bool],
    ) -> None:
        self._models = models
        self._collector = collector
        self._reader = reader
        self._guard = guard
        self._wants = wants
        self._layers: dict[int, WatchedModule] = {}
        self._is_armed = False

    def find(self) -> None:
        """Register layers that are not known yet. Call it again when the model has grown."""
        for prefix, model in self._models.items():
            wrappers = wrappers_of(model)
            for name, module in model.named_modules():
                full = clean(name, wrappers) or type(module).__name__
                full = f"{prefix}/{full}" if prefix else full
                if is_too_deep(name, module) or id(module) in self._layers:
                    continue
                if is_layer(module) and self._wants(full):
                    self._layers[id(module)] = WatchedModule(full, module)
        if self._is_armed:
            self._put_on()

    def arm(self, is_armed: bool) -> None:
        """Put the hooks on for a sampled step, or take them off after it.

        Even an idle hook costs each call of its module 2 µs. The hook of a layer that was not called stays:
        removing it saves nothing, and if it went into a compiled graph, the graph would be compiled again.
        """
        if is_armed == self._is_armed:
            return
        self._is_armed = is_armed
        if is_armed:
            self._put_on()
        else:
            self._take_off([layer for layer in self._layers.values() if layer.was_called])

    def __len__(self) -> int:
        return len(self._layers)

    @property
    def were_called(self) -> bool:
        """Whether any layer was called while its hook was on."""
        return any(layer.was_called for layer in self._layers.values())

    def close(self) -> None:
        self._take_off(list(self._layers.values()))

    def _put_on(self) -> None:
        for layer in self._layers.values():
            layer.was_called = False
            if layer.handle is None:
                layer.handle = after_forward(layer.module, self._hook_of(layer))

    def _take_off(self, layers: Sequence[WatchedModule]) -> None:
        for layer in layers:
            if layer.handle is not None:
                layer.handle.remove()
                layer.handle = None

    def _hook_of(self, layer: WatchedModule) -> Callable[[nn.Module, Any, Any], None]:
        collector, guard, look = self._collector, self._guard, self._look

        def watch_output(module: nn.Module, _: Any, output: Any) -> None:
            # torch.compile folds `is_compiling()` to a constant and leaves the rest out of its graph.
            if is_compiling() or is_traced() or not collector.sampling or not is_grad_enabled():
                return
            layer.was_called = True
            if guard.is_off:
                return
            started = now()
            try:
                look(layer, module, output)
            except Exception as error:
                guard.fault(f"looking at the output of {layer.name}", error)
            collector.charge(started)

        return watch_output

    def _look(self, layer: WatchedModule, module: nn.Module, output: Any) -> None:
        step = self._collector.step
        # -1: no backward pass is running on this thread.
        if current_backward() == -1:
            layer.seen_in_step = step
        elif layer.seen_in_step == step:
            return  # recomputed during backward by activation checkpointing
        if type(output) is torch.Tensor:
            found: Iterable[tuple[str, torch.Tensor]] = (("", output),)
        else:
            found = tensors_in(output)
            self._reader.refuse_closed(f"the output of {layer.name}", output)
        for place, tensor in found:
            # Integer and boolean outputs (indices, masks) say nothing about the health of a layer.
            if tensor.is_floating_point() or tensor.is_complex() or tensor.is_quantized:
                self._reader.activation(layer.series_of(place), tensor, module)
