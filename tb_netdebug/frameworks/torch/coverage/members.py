"""Every parameter of the watched models, with its name and the module that owns it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from torch import nn
from torch.nn.parameter import is_lazy

from tb_netdebug.frameworks.torch.batches.contents import is_on_host, selection
from tb_netdebug.frameworks.torch.host_arrays import array_over
from tb_netdebug.frameworks.torch.parameters import clean, wrappers_of
from tb_netdebug.frameworks.torch.values import is_tensor
from tb_netdebug.recording.containers import key_text, parts_of

# Containers in which layers end up by mistake, and how deep and how far these are searched.
CONTAINERS = (list, tuple, dict)
MOST_NESTED = 2
MOST_ENTRIES = 1024
# Attributes of every module, which are torch's own.
OF_TORCH = frozenset(vars(nn.Module()))

# So many values of a parameter are compared to see whether it has moved.
SELECTED = 16


@dataclass(frozen=True, slots=True)
class Member:
    """One parameter of a watched model; a tied one goes by its first name."""

    name: str
    tensor: nn.Parameter
    owner_name: str
    owner: nn.Module
    model: str
    is_wanted: bool
    """The user may have excluded its name; it still belongs to the model."""
    is_hidden: bool = False
    """Its module is in a plain list or dict, where torch does not see it."""


def members_of(models: Mapping[str, nn.Module], wants: Callable[[str], bool]) -> dict[int, Member]:
    """Return the members by tensor id, in the order of definition, without those that have no values yet."""
    found: dict[int, Member] = {}
    for prefix, model in models.items():
        for member in in_module(prefix, model, wants):
            found.setdefault(id(member.tensor), member)
    for prefix, model in models.items():
        for place, owner, each in hidden_in(model):
            if isinstance(each, nn.Module):
                for member in in_module(prefix, each, wants, below=place):
                    found.setdefault(id(member.tensor), member)
            elif not is_lazy(each):
                full = joined("/", prefix, place)
                owner_name = joined("/", prefix, owner[0]) or type(model).__name__
                found.setdefault(
                    id(each), Member(full, each, owner_name, owner[1], prefix, wants(full), is_hidden=True)
                )
    return found


def in_module(
    prefix: str, model: nn.Module, wants: Callable[[str], bool], *, below: str = ""
) -> Iterator[Member]:
    """Yield all parameters of a module, tied ones under each name; `below` is where a hidden module lies."""
    wrappers = wrappers_of(model)
    for module_name, module in model.named_modules():
        owner = joined(".", below, clean(module_name, wrappers))
        full_owner = joined("/", prefix, owner) or type(model).__name__
        for own, tensor in module.named_parameters(recurse=False):
            if not is_lazy(tensor):
                full = joined("/", prefix, joined(".", owner, own))
                yield Member(full, tensor, full_owner, module, prefix, wants(full), bool(below))


def hidden_in(
    model: nn.Module,
) -> Iterator[tuple[str, tuple[str, nn.Module], nn.Module | nn.Parameter]]:
    """Yield modules and parameters in plain lists and dicts of modules, with their place and their owner."""
    registered = set(model.modules())
    wrappers = wrappers_of(model)
    for name, module in model.named_modules():
        owner = clean(name, wrappers)
        for attribute, value in list(vars(module).items()):
            if attribute not in OF_TORCH and issubclass(type(value), CONTAINERS):
                for place, each in contents_of(attribute, value):
                    if not isinstance(each, nn.Module) or each not in registered:
                        yield joined(".", owner, place), (owner, module), each


def contents_of(
    place: str, container: Any, depth: int = MOST_NESTED
) -> Iterator[tuple[str, nn.Module | nn.Parameter]]:
    """Yield modules and parameters in a container, with their place, and those in containers inside it."""
    for number, (key, each) in enumerate(parts_of(container, MOST_ENTRIES) or ()):
        inside = f"{place}[{key_text(key, number)}]"
        if is_module(each) or (is_tensor(each) and isinstance(each, nn.Parameter)):
            yield inside, each
        elif depth and issubclass(type(each), CONTAINERS):
            yield from contents_of(inside, each, depth - 1)


def is_module(value: Any) -> TypeGuard[nn.Module]:
    return issubclass(type(value), nn.Module)


def joined(between: str, *parts: str) -> str:
    return between.join(part for part in parts if part)


def state_of(tensor: nn.Parameter) -> tuple[int, bytes] | None:
    """Return a value that changes with the tensor's values; None on a device, which is never waited for.

    The version alone is not enough, because `parameter.data` can be changed without it.
    """
    bits = array_over(tensor) if is_on_host(tensor) else None
    if bits is None:
        return None
    # Inference tensors have no version counter.
    version = 0 if tensor.is_inference() else tensor._version
    return version, selection(bits, SELECTED).tobytes()
