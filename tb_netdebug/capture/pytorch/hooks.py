"""Hooks that stay with the module they were put on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import nn


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


class NoHandle:
    """Of a hook that was not put on."""

    def remove(self) -> None:
        """There is nothing to take off."""


def before_forward(module: nn.Module, hook: Hook, **options: bool) -> Any:
    """Puts the hook on; what torch.jit.script has made takes none, and is watched from outside alone."""
    if isinstance(module, torch.jit.ScriptModule):
        return NoHandle()
    return module.register_forward_pre_hook(hook, **options)


def after_forward(module: nn.Module, hook: Hook, **options: bool) -> Any:
    """The same behind the call."""
    if isinstance(module, torch.jit.ScriptModule):
        return NoHandle()
    return module.register_forward_hook(hook, **options)


def nothing(*_: object) -> None:
    """The hook of a copy."""
