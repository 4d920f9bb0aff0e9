"""The optimizers of a training, wherever they were found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Optimizers:
    """Those that were given, and those of compiled models; else those that a loop has stepped."""

    def __init__(
        self, given: Sequence[Any], models: Mapping[str, Any], stepped: Callable[[], list[Any]]
    ) -> None:
        self._given = list(given)
        self._models = list(models.values())
        self._stepped = stepped

    def known(self) -> list[Any]:
        compiled = [getattr(each, "optimizer", None) for each in self._models]
        found = {id(each): each for each in (*self._given, *compiled) if each is not None}
        return list(found.values()) or self._stepped()

    def have_moved(self) -> bool:
        """Not while one only adds up gradients."""
        for optimizer in self.known():
            steps = getattr(optimizer, "gradient_accumulation_steps", None)
            if steps and int(optimizer.iterations.numpy()) % steps:
                return False
        return True
