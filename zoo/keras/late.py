"""Keras and TensorFlow for programs of the zoo, imported when they are first used.

The command lists all programs and forks for those of torch: it must not have TensorFlow in it, whose threads
do not survive a fork, nor wait for the seconds that it takes to load. So classes stand within functions.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any


class Late:
    """A module that is not there yet."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


if TYPE_CHECKING:
    import keras as keras
    import tensorflow as tf
else:
    keras, tf = Late("keras"), Late("tensorflow")

__all__ = ["keras", "tf"]
