"""The parameters of the watched models by name, kept up to date while the models grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.parameter import is_lazy

from tb_netdebug.core.records.step import Kind, Series
from tb_netdebug.frameworks.torch.hooks import HookEntry

# Prefixes that wrappers add to the names that the user has given.
# They are those of torch.compile, of data parallelism, of FSDP and of activation checkpointing.
WRAPPERS = ("_orig_mod.", "module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


def clean(name: str, wrappers: tuple[str, ...]) -> str:
    """Return a name without the prefixes of wrappers."""
    for wrapper in wrappers:
        name = name.replace(wrapper, "")
    return name


def wrappers_of(model: nn.Module) -> tuple[str, ...]:
    """Return the prefixes to remove from names of the model.

    "module." is one only under data parallelism: a user may have given that name to a layer.
    """
    wrapped = isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel)
    return tuple(name for name in WRAPPERS if name != "module." or wrapped)


class WatchedParameter:
    """One parameter and its series for weight, gradient and update."""

    __slots__ = ("gradient", "name", "tensor", "update", "weight")

    def __init__(self, name: str, tensor: nn.Parameter) -> None:
        self.name = name
        self.tensor = tensor
        self.weight = Series(Kind.WEIGHT, name)
        self.gradient = Series(Kind.GRADIENT, name)
        self.update = Series(Kind.UPDATE, name)


class Parameters:
    """The parameters of the models whose names are wanted; a tied one counts once, under its first name."""

    def __init__(self, models: Mapping[str, nn.Module], wants: Callable[[str], bool]) -> None:
        self._models = models
        self._wants = wants
        self._by_id: dict[int, WatchedParameter] = {}
        self.changes = 0  # the generation of what `current` returns; callers compare it
        self.is_stale = True
        self._hooks = [
            HookEntry(torch_module._global_module_registration_hooks, self._on_growth),
            HookEntry(torch_module._global_parameter_registration_hooks, self._on_growth),
        ]

    def __len__(self) -> int:
        return len(self.current())

    def current(self) -> dict[int, WatchedParameter]:
        """Return the parameters by id of their tensor, collected anew if a module or parameter was added."""
        if self.is_stale:
            self.is_stale = False
            self._by_id = self._collect()
            self.changes += 1
        return self._by_id

    def of(self, optimizer: torch.optim.Optimizer) -> list[WatchedParameter]:
        """Return the parameters that an optimizer moves."""
        known = self.current()
        return [
            known[id(tensor)]
            for group in optimizer.param_groups
            for tensor in group["params"]
            if id(tensor) in known
        ]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def _on_growth(self, *_: object) -> None:
        self.is_stale = True

    def _collect(self) -> dict[int, WatchedParameter]:
        found: dict[int, WatchedParameter] = {}
        for prefix, model in self._models.items():
            wrappers = wrappers_of(model)
            for name, tensor in model.named_parameters():
                full = f"{prefix}/{clean(name, wrappers)}" if prefix else clean(name, wrappers)
                if is_lazy(tensor):
                    self.is_stale = True  # nothing reports when it gets its values, so look again
                elif id(tensor) not in found and self._wants(full):
                    found[id(tensor)] = self._by_id.get(id(tensor)) or WatchedParameter(full, tensor)
        return {key: value for key, value in found.items() if value.tensor is not None}
