"""Summaries of tensors for tracebacks. Called by `training.excepthook`."""

from __future__ import annotations

from typing import Any

import torch

from tb_netdebug.core.stats import kernel
from tb_netdebug.frameworks.torch.reader import host_item
from tb_netdebug.frameworks.torch.values import CODES, UnreadableError, is_functorch_wrapped, plain


def packed_tensor(value: Any) -> bytes | None:
    """Return the packed summary of a tensor or array in host memory, or None if it cannot be read."""
    try:
        tensor = value if isinstance(value, torch.Tensor) else torch.as_tensor(value)
        if is_functorch_wrapped(tensor) or not tensor.is_cpu:
            return None
        tensor = plain(tensor).contiguous()
    except (UnreadableError, TypeError, ValueError, RuntimeError):
        return None
    if tensor.dtype not in CODES:
        return None
    # On one thread: the thread that failed may have left the others in any state.
    return kernel.summarize([host_item(tensor)], 1)[0]
