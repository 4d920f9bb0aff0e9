"""The modules of a model that do something else in training than in evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from tb_netdebug.frameworks.torch.parameters import clean, wrappers_of


@dataclass(frozen=True, slots=True)
class Switch:
    """Such a module, and whose parameters learn from its output: its own, else those around it."""

    name: str
    module: nn.Module
    learners: nn.Module

    @property
    def is_frozen(self) -> bool:
        """Part of what is not trained at all: there, evaluation mode is meant."""
        return not any(parameter.requires_grad for parameter in self.learners.parameters())

    @property
    def is_recalibrating(self) -> bool:
        """Batch norm that averages over all batches, as `torch.optim.swa_utils.update_bn` sets it."""
        return isinstance(self.module, _NormBase) and self.module.momentum is None


def switches_of(prefix: str, model: nn.Module, wants: Callable[[str], bool]) -> list[Switch]:
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
    """Dropout that drops something, and normalisation that keeps statistics for evaluation."""
    if isinstance(module, _NormBase):
        return bool(module.track_running_stats)
    if isinstance(module, _DropoutNd):
        return bool(module.p > 0)
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        return bool(module.dropout > 0)
    share = getattr(module, "drop_prob", None)  # timm's and Hugging Face's dropout of whole paths
    return isinstance(share, float) and share > 0


def learners_around(name: str, modules: dict[str, nn.Module]) -> nn.Module:
    """The smallest module around it, itself included, that has parameters; else the outermost one."""
    while name:
        if has_parameters(modules[name].parameters()):
            return modules[name]
        name = name.rpartition(".")[0]
    return modules[""]


def has_parameters(parameters: Iterable[nn.Parameter]) -> bool:
    return next(iter(parameters), None) is not None
