"""Copies a capsule's weights into a model by name, without running code of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from tb_netdebug.frameworks.torch.numerics.capsule_file import CapsuleError
from tb_netdebug.frameworks.torch.numerics.search import first_line

MOST_NAMED = 3
# The suffix under which state_dict keeps a module's extra state, found in capsules of version 1.
EXTRA = "_extra_state"


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return parameters and persistent buffers under their state_dict names."""
    found: dict[str, torch.Tensor] = {}
    for place, module in model.named_modules(remove_duplicate=False):
        prefix = f"{place}." if place else ""
        own = {**module._parameters, **module._buffers}
        for name, tensor in own.items():
            if tensor is not None and name not in module._non_persistent_buffers_set:
                found[prefix + name] = tensor
    return found


def misfit(state: Mapping[str, Any], model: nn.Module) -> str:
    """Return why these weights are not this model's, in half a sentence; empty when they fit."""
    own = weights_of(model)
    given = {name: value for name, value in state.items() if not name.endswith(EXTRA)}
    missing = [name for name in own if name not in given]
    unexpected = [name for name in given if name not in own]
    shapes = [
        f"{name} is {list(value.shape)} in the capsule and {list(own[name].shape)} in the model"
        for name, value in given.items()
        if name in own
        and isinstance(value, torch.Tensor)
        and not is_lazy(own[name])
        and value.shape != own[name].shape
    ]
    told = (
        ("it has no", missing), ("the model has no", unexpected), ("of other shapes:", shapes)
    )  # fmt: skip
    return "; ".join(f"{what} {listed(names)}" for what, names in told if names)


def listed(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def put_weights(state: Mapping[str, Any], model: nn.Module, *, version: int) -> list[str]:
    """Copy the weights and return a note on each that the capsule could not hold. Raises CapsuleError."""
    wrong = misfit(state, model)
    try:
        if wrong and version == 1 and model_takes(state, model):
            return []
        if not wrong:
            return copied(state, weights_of(model))
    except Exception as error:
        wrong = first_line(error)
    raise CapsuleError(f"the weights of the capsule do not fit a {type(model).__name__}: {wrong}")


def copied(state: Mapping[str, Any], own: Mapping[str, torch.Tensor]) -> list[str]:
    notes = []
    with torch.no_grad():
        for name, target in own.items():
            value = state[name]
            if not isinstance(value, torch.Tensor):
                notes.append(
                    f"the capsule does not hold {name}: it keeps the value that the model was built with"
                )
                continue
            if is_lazy(target):
                target.materialize(value.shape, value.device, value.dtype)
            target.copy_(value)
    return notes


def model_takes(state: Mapping[str, Any], model: nn.Module) -> bool:
    """Return whether the model loads the state itself.

    Capsules of version 1 hold the output of state_dict, which the model may have customised.
    """
    try:
        model.load_state_dict(dict(state))
    except Exception:
        return False
    return True
