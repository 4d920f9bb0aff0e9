"""The modes of torch that would see what the debugger does with tensors, put aside for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

stack_length = torch._C._len_torch_dispatch_stack


def popped() -> list[Any]:
    """All modes of this thread, the innermost first; they are off until `pushed`."""
    return [_pop_mode() for _ in range(stack_length())]


def pushed(modes: list[Any]) -> None:
    for mode in reversed(modes):
        _push_mode(mode)


@contextmanager
def without_modes() -> Iterator[None]:
    """Neither a mode of the user's nor one of ours is told of operations."""
    modes = popped()
    try:
        yield
    finally:
        pushed(modes)


@contextmanager
def reading() -> Iterator[None]:
    """No graph, and nobody who has overridden torch's functions is asked."""
    with without_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield
