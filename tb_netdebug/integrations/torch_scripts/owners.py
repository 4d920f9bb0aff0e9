"""Finds the models that own the parameters of optimizers, among all objects of the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.optim import Optimizer

# Containers that hold modules and are never called themselves.
SHELVES = (nn.ModuleList, nn.ModuleDict)


@dataclass(slots=True)
class Owners:
    """The outermost models of some optimizers, and the tensors that belong to no module.

    `models` has one list per optimizer, in the order of its parameters.
    """

    models: list[list[nn.Module]] = field(default_factory=list)
    loose: list[Any] = field(default_factory=list)

    def all_models(self) -> list[nn.Module]:
        """Return the models of all optimizers, each once."""
        return list({id(model): model for models in self.models for model in models}.values())


def find_owners(optimizers: Sequence[Any], *, called: nn.Module | None = None) -> Owners:
    """Search all objects once, which takes some 50 ms, and more in a program with many objects.

    A model inside another counts as part of it, unless it is the one that is `called` and has everything that
    the optimizers update: then the outer one is no model but holds one, as a LightningModule does.
    """
    wanted = {id(tensor) for optimizer in optimizers for tensor in tensors_of(optimizer)}
    owner_of: dict[int, nn.Module] = {}
    parents: dict[int, list[nn.Module]] = {}
    for module in all_modules():
        for tensor in dict(module._parameters).values():
            if id(tensor) in wanted:
                owner_of.setdefault(id(tensor), module)
        for child in dict(module._modules).values():
            parents.setdefault(id(child), []).append(module)
    found = Owners()
    whole = called if called is not None and wanted <= parameter_ids(called) else None
    for optimizer in optimizers:
        tensors = tensors_of(optimizer)
        found.loose += [tensor for tensor in tensors if id(tensor) not in owner_of]
        owners = unique(owner_of[id(tensor)] for tensor in tensors if id(tensor) in owner_of)
        outermost = unique(root for owner in owners for root in roots(owner, parents))
        found.models.append([whole] if whole is not None and outermost else outermost)
    return found


def all_modules() -> list[nn.Module]:
    """Return all modules of the program.

    Classes are examined, not objects: a lazy proxy would load what it stands for.
    """
    modules = []
    kinds: dict[type, bool] = {}
    for each in gc.get_objects():
        kind = type(each)
        is_module = kinds.get(kind)
        if is_module is None:
            is_module = kinds[kind] = issubclass(kind, nn.Module)
        # A module whose constructor has not run yet has neither.
        if is_module and "_modules" in vars(each) and "_parameters" in vars(each):
            modules.append(each)
    return modules


def roots(module: nn.Module, parents: dict[int, list[nn.Module]]) -> Iterator[nn.Module]:
    """Yield the outermost modules that contain this one, looking through ModuleList and ModuleDict."""
    waiting, seen = [module], {id(module)}
    while waiting:
        each = waiting.pop()
        above = [parent for parent in parents.get(id(each), ()) if type(parent) not in SHELVES]
        shelved = [
            grandparent
            for parent in parents.get(id(each), ())
            if type(parent) in SHELVES
            for grandparent in parents.get(id(parent), ())
        ]
        above += [parent for parent in shelved if type(parent) not in SHELVES]
        if not above:
            yield each
        for parent in above:
            if id(parent) not in seen:
                seen.add(id(parent))
                waiting.append(parent)


def tensors_of(optimizer: Any) -> list[Any]:
    """Return the tensors of an optimizer in the order in which it got them."""
    return [tensor for group in getattr(optimizer, "param_groups", ()) for tensor in group["params"]]


def parameter_ids(model: nn.Module) -> set[int]:
    return {id(tensor) for tensor in model.parameters()}


def unique(modules: Iterable[nn.Module]) -> list[nn.Module]:
    return list({id(module): module for module in modules}.values())


def are_alike(optimizers: Sequence[Optimizer], models: Sequence[Sequence[nn.Module]]) -> bool:
    """Return whether these are training runs of the same network side by side, as in a cross-validation."""
    if len(optimizers) < 2 or any(len(each) != 1 for each in models):
        return False
    if len({id(model) for (model,) in models}) < len(models):
        return False
    return len({type(model) for (model,) in models}) == 1 and are_of_one_shape(optimizers)


def are_of_one_shape(optimizers: Sequence[Optimizer]) -> bool:
    """Return whether all optimizers update tensors of the same shapes, in the same order."""
    return len({tuple(tuple(tensor.shape) for tensor in tensors_of(each)) for each in optimizers}) == 1


def loose_model(tensors: Sequence[Any]) -> nn.Module:
    """Return a module that stands for tensors trained without one; nothing calls it."""
    model = Loose()
    for number, tensor in enumerate(tensors):
        model._parameters[f"tensor{number}"] = tensor
    return model


class Loose(nn.Module):
    """A module whose parameters are set as they are: making a Parameter of a tensor would copy it."""
