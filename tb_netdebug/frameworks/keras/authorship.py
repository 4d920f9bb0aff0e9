"""Decide whose Python runs when a model is traced: only Keras's, or the user's, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras

OF_KERAS = ("keras.", "builtins", "numpy.")
MOST_DEPTH = 4


def is_all_of_keras(model: Any) -> bool:
    """Return whether no code of the user's runs in the training step; False when in doubt."""
    try:
        parts = [model.optimizer, model.loss, *model._flatten_layers(), *metrics_of(model)]
        return all(map(is_of_keras, parts))
    except Exception:
        return False


def metrics_of(model: Any) -> Iterator[Any]:
    compiled = getattr(model, "_compile_config", None)
    config = getattr(compiled, "config", None) or {}
    yield from keras.tree.flatten([config.get(name) for name in ("loss", "metrics", "weighted_metrics")])
    yield from model.metrics


def is_of_keras(part: Any, depth: int = 0) -> bool:
    """Return whether a part, and the functions that it holds, are Keras's.

    A number, a name or an array is nobody's code.
    """
    if isinstance(part, keras.layers.Lambda):
        return False
    if isinstance(part, list | tuple):
        return all(is_of_keras(each, depth) for each in part)
    if isinstance(part, dict):
        return all(is_of_keras(each, depth) for each in part.values())
    if not callable(part):
        return True
    kind = part if hasattr(part, "__qualname__") else type(part)
    if not str(getattr(kind, "__module__", "")).startswith(OF_KERAS):
        return False
    if kind is part or depth >= MOST_DEPTH or isinstance(part, keras.Variable):
        return True
    return all(is_of_keras(each, depth + 1) for each in vars(part).values())
