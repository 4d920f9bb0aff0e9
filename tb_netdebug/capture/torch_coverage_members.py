"""Every parameter of the watched models: its name and the module that owns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn
from torch.nn.parameter import is_lazy

from tb_netdebug.capture.torch_batch_contents import bits_of, is_on_host, selection
from tb_netdebug.capture.torch_parameters import clean, wrappers_of

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


def members_of(models: Mapping[str, nn.Module], wants: Callable[[str], bool]) -> dict[int, Member]:
    """By id of the tensor, in the order of definition; those that have no values yet are left out."""
    found: dict[int, Member] = {}
    for prefix, model in models.items():
        wrappers = wrappers_of(model)
        for module_name, module in model.named_modules():
            owner = clean(module_name, wrappers)
            full_owner = "/".join(part for part in (prefix, owner) if part) or type(model).__name__
            for own, tensor in module.named_parameters(recurse=False):
                if id(tensor) in found or is_lazy(tensor):
                    continue
                name = clean(f"{module_name}.{own}" if module_name else own, wrappers)
                full = f"{prefix}/{name}" if prefix else name
                found[id(tensor)] = Member(full, tensor, full_owner, module, prefix, wants(full))
    return found


def state_of(tensor: nn.Parameter) -> tuple[int, bytes] | None:
    """Changes when the values do; of a tensor on a device None, for nobody shall wait for that.

    The version alone is not enough: `parameter.data` can be changed without it.
    """
    bits = bits_of(tensor) if is_on_host(tensor) else None
    if bits is None:
        return None
    version = 0 if tensor.is_inference() else tensor._version
    return version, selection(bits, SELECTED).tobytes()
