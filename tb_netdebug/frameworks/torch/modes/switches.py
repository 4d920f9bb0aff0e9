"""Finds the modules of a model that behave differently in training and in evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from tb_netdebug.frameworks.torch.parameters import clean, wrappers_of


@dataclass(frozen=True, slots=True)
class Switch:
    """A module with a mode; `learners`, itself or one around it, holds the parameters that it trains."""

    name: str
    module: nn.Module
    learners: nn.Module

    @property
    def is_frozen(self) -> bool:
        """Whether it belongs to a part that is not trained at all, where evaluation mode is intended."""
        return not any(parameter.requires_grad for parameter in self.learners.parameters())

    @property
    def is_recalibrating(self) -> bool:
        """Whether it is a batch norm that averages over all batches, as `swa_utils.update_bn` sets it."""
        return isinstance(self.module, _NormBase) and self.module.momentum is None


def switches_of(prefix: str, model: nn.Module, wants: Callable[[str], bool]) -> list[Switch]:
    """Return the switches of a model whose full names are wanted."""
    wrappers = wrappers_of(model)
    found: list[Switch] = []
    modules = dict(model.named_modules())
    for name, module in modules.items():
        if not is_switch(module):
            continue
        full = clean(name, wrappers) or type(module).__name__
        full = f"{prefix}/{full}" if prefix else full
        if wants(full):
            found.append(Switch(full, module, learners_around(name, modules)))
    return found


def is_switch(module: nn.Module) -> bool:
    """Return whether a module drops something, or normalises with statistics that it keeps for evaluation."""
    if isinstance(module, _NormBase):
        return bool(module.track_running_stats)
    if isinstance(module, _DropoutNd):
        return bool(module.p > 0)
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        return bool(module.dropout > 0)
    share = getattr(module, "drop_prob", None)  # stochastic depth of timm and Hugging Face
    return isinstance(share, float) and share > 0


def learners_around(name: str, modules: dict[str, nn.Module]) -> nn.Module:
    """Return the smallest module around a name, itself included, with parameters; else the outermost."""
    while name:
        if has_parameters(modules[name].parameters()):
            return modules[name]
        name = name.rpartition(".")[0]
    return modules[""]


def has_parameters(parameters: Iterable[nn.Parameter]) -> bool:
    return next(iter(parameters), None) is not None
