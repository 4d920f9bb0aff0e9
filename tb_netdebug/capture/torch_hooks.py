"""Hooks that stay with the module they were put on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any


class Hook(partial[None]):
    """Calls what it is made of, at no cost of its own.

    Copies of the module, and what torch.save writes of it, are not watched.

    A hook cannot be left out of either. So a copy gets one that does nothing, and a file one that does
    nothing and that a program without NetDebug can load.
    """

    @property
    def __name__(self) -> str:
        """Asked for by torch.jit.script, which compiles hooks, too, and cannot compile these."""
        raise AttributeError("torch.jit.script cannot compile what NetDebug watches: close the monitor first")

    def __deepcopy__(self, _: object) -> Callable[..., None]:
        return nothing

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (nullcontext(), "__exit__")  # takes any arguments and does nothing


def nothing(*_: object) -> None:
    """The hook of a copy."""
