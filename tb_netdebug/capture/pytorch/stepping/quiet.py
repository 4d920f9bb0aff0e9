"""The modes of torch that would see what the debugger does with tensors, put aside for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import _pop_mode, _push_mode

stack_length = torch._C._len_torch_dispatch_stack


def popped() -> list[Any]:
    """All modes of this thread, the innermost first; none is told of operations until `pushed`."""
    return [_pop_mode() for _ in range(stack_length())]


def pushed(modes: list[Any]) -> None:
    for mode in reversed(modes):
        _push_mode(mode)


@contextmanager
def reading() -> Iterator[None]:
    """No graph, and nobody who has overridden torch's functions is asked."""
    modes = popped()
    try:
        with torch._C.DisableTorchFunction(), torch.no_grad():
            yield
    finally:
        pushed(modes)
