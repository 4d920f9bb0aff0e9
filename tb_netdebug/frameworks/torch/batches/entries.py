"""Finds the module at which a watched model is called."""

from __future__ import annotations

from torch import nn


def entry_of(model: nn.Module) -> nn.Module:
    """Return the model, or its first part that can be called: lists and dicts of modules cannot be."""
    if can_be_called(model):
        return model
    parts = (entry_of(child) for child in model.children())
    return next((part for part in parts if can_be_called(part)), model)


def can_be_called(model: nn.Module) -> bool:
    """Return whether a model has a `forward`, found by hand: asking a TorchScript class for it fails."""
    return "forward" in vars(model) or any(
        "forward" in vars(base) for base in type(model).__mro__ if base is not nn.Module
    )
