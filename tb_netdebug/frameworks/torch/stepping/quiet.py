"""A context for the debugger's own work with tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from tb_netdebug.frameworks.torch.interception import Unintercepted


@contextmanager
def reading() -> Iterator[None]:
    """Enter a context without a graph, out of sight of the user's modes and overridden torch functions."""
    with Unintercepted(), torch.no_grad():
        yield
