"""Where a watched model is called."""

from __future__ import annotations

from torch import nn


def entry_of(model: nn.Module) -> nn.Module:
    """The model, or the first of its parts that can be called: lists and dicts of modules cannot be."""
    if can_be_called(model):
        return model
    parts = (entry_of(child) for child in model.children())
    return next((part for part in parts if can_be_called(part)), model)


def can_be_called(model: nn.Module) -> bool:
    """Looked up by hand: TorchScript's `forward` cannot be asked for on a class."""
    return "forward" in vars(model) or any(
        "forward" in vars(base) for base in type(model).__mro__ if base is not nn.Module
    )
