"""The layers of the watched models, named as in the run's graph, and their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch.nn.parameter import is_lazy

from tb_netdebug.frameworks.torch.parameters import Parameters, clean, wrappers_of

COMPILED = "it is compiled by torch.compile, so the run cannot stop within it"
SCRIPTED = "it is TorchScript, so the run cannot stop at it"


@dataclass(frozen=True, slots=True, eq=False)
class SteppedLayer:
    """A layer where the debugger may stop; `obstacle` says why its calls cannot be seen, if so."""

    name: str
    class_name: str
    module: nn.Module
    parent: str | None
    obstacle: str | None

    def size(self) -> int:
        """Return the number of values in all its parameters."""
        return sum(each.numel() for each in self.module.parameters() if not is_lazy(each))

    def own_parameters(self) -> list[nn.Parameter]:
        """Return its trainable parameters, without those of the layers inside it."""
        own = (each for each in self.module._parameters.values() if each is not None)
        return [each for each in own if each.requires_grad and each.is_leaf and not is_lazy(each)]


class SteppedLayers:
    """The registry of layers, rebuilt when models have grown.

    A tied parameter or a shared layer goes by its first name.
    """

    def __init__(self, models: Mapping[str, nn.Module], parameters: Parameters) -> None:
        self._models = models
        self._parameters = parameters
        self.generation = -1
        self._by_id: dict[int, SteppedLayer] = {}
        self._by_name: dict[str, SteppedLayer] = {}
        self.weights: dict[str, nn.Parameter] = {}
        self._weight_names: dict[int, str] = {}
        self._owners: dict[int, str] = {}

    def look(self) -> bool:
        """Rebuild the registry if the models have changed. Return whether they have."""
        self._parameters.current()
        if self.generation == self._parameters.changes:
            return False
        self.generation = self._parameters.changes
        found = [layer for prefix, model in self._models.items() for layer in layers_of(prefix, model)]
        self._by_id = {}
        for layer in found:
            self._by_id.setdefault(id(layer.module), layer)
        # A wrapper and its content have the same name. The content comes later, so it wins.
        self._by_name = {layer.name: layer for layer in self._by_id.values()}
        self._find_weights()
        return True

    def all(self) -> list[SteppedLayer]:
        """Return all layers, parents before their children."""
        self.look()
        return list(self._by_name.values())

    def of(self, module: nn.Module | None) -> SteppedLayer | None:
        return self._by_id.get(id(module))

    def named(self, name: str | None) -> SteppedLayer | None:
        return self._by_name.get(name) if name is not None else None

    def weight_name(self, weight: object) -> str | None:
        return self._weight_names.get(id(weight))

    def owner(self, weight: nn.Parameter) -> str | None:
        """Return the name of the layer that owns the parameter."""
        return self._owners.get(id(weight))

    def _find_weights(self) -> None:
        self.weights, self._weight_names, self._owners = {}, {}, {}
        for prefix, model in self._models.items():
            wrappers = wrappers_of(model)
            for name, weight in model.named_parameters():
                full = joined(prefix, clean(name, wrappers))
                if not is_lazy(weight) and id(weight) not in self._weight_names:
                    self.weights[full] = weight
                    self._weight_names[id(weight)] = full
        for layer in self._by_id.values():
            for own in layer.module._parameters.values():
                if own is not None:
                    self._owners.setdefault(id(own), layer.name)


def layers_of(prefix: str, model: nn.Module) -> Iterator[SteppedLayer]:
    """Yield the layers of a model, with the reason why the debugger cannot stop at them, if any."""
    wrappers = wrappers_of(model)
    root = prefix or type(model).__name__
    blocked: dict[str, str] = {}  # compiling a module compiles everything inside it
    for name, module in model.named_modules():
        obstacle = obstacle_of(module) or blocked.get(name.rpartition(".")[0] if name else "-")
        if obstacle is not None:
            blocked[name] = obstacle
        short = clean(f"{name}.", wrappers).rstrip(".") if name else ""
        above = joined(prefix, short.rpartition(".")[0]) or root
        yield SteppedLayer(
            joined(prefix, short) or root, type(module).__name__, module, above if short else None, obstacle
        )


def obstacle_of(module: nn.Module) -> str | None:
    """Return why calls of the module cannot be seen; None when they can."""
    if isinstance(module, OptimizedModule) or module._compiled_call_impl is not None:
        return COMPILED
    if isinstance(module, torch.jit.ScriptModule):
        return SCRIPTED
    return None


def joined(prefix: str, name: str) -> str:
    return "/".join(part for part in (prefix, name) if part)
