"""Every parameter of the watched models: its name and the module that owns it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from torch import nn
from torch.nn.parameter import is_lazy

from tb_netdebug.capture.pytorch.batches.contents import bits_of, is_on_host, selection
from tb_netdebug.capture.pytorch.parameters import clean, wrappers_of

# So many values of a parameter tell whether it was moved.
SELECTED = 16


@dataclass(frozen=True, slots=True)
class Member:
    """One parameter; a tied one goes by its first name."""

    name: str
    tensor: nn.Parameter
    owner_name: str
    owner: nn.Module
    model: str
    is_wanted: bool
    """The user may have excluded its name; it still belongs to the model."""
    is_hidden: bool = False
    """Its module lies in a plain list or dict, where torch does not see it."""


def members_of(models: Mapping[str, nn.Module], wants: Callable[[str], bool]) -> dict[int, Member]:
    """By id of the tensor, in the order of definition; those that have no values yet are left out."""
    found: dict[int, Member] = {}
    for prefix, model in models.items():
        for member in in_module(prefix, model, wants):
            found.setdefault(id(member.tensor), member)
    for prefix, model in models.items():
        for place, module in hidden_in(model):
            for member in in_module(prefix, module, wants, below=place):
                found.setdefault(id(member.tensor), member)
    return found


def in_module(
    prefix: str, model: nn.Module, wants: Callable[[str], bool], *, below: str = ""
) -> Iterator[Member]:
    """Tied parameters under each of their names; `below` is where a hidden module lies."""
    wrappers = wrappers_of(model)
    for module_name, module in model.named_modules():
        owner = joined(".", below, clean(module_name, wrappers))
        full_owner = joined("/", prefix, owner) or type(model).__name__
        for own, tensor in module.named_parameters(recurse=False):
            if not is_lazy(tensor):
                full = joined("/", prefix, joined(".", owner, own))
                yield Member(full, tensor, full_owner, module, prefix, wants(full), bool(below))


def hidden_in(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Modules in plain lists and dicts of a model's modules, with their places."""
    registered = set(model.modules())
    wrappers = wrappers_of(model)
    for name, module in model.named_modules():
        for attribute, value in list(vars(module).items()):
            if not isinstance(value, list | tuple | dict):
                continue
            for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
                if isinstance(each, nn.Module) and each not in registered:
                    yield joined(".", clean(name, wrappers), f"{attribute}[{key}]"), each


def joined(between: str, *parts: str) -> str:
    return between.join(part for part in parts if part)


def state_of(tensor: nn.Parameter) -> tuple[int, bytes] | None:
    """Changes when the values do; of a tensor on a device None, for nobody shall wait for that.

    The version alone is not enough: `parameter.data` can be changed without it.
    """
    bits = bits_of(tensor) if is_on_host(tensor) else None
    if bits is None:
        return None
    version = 0 if tensor.is_inference() else tensor._version
    return version, selection(bits, SELECTED).tobytes()
