"""Thins big tensors: takes few enough values at equal distances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

# Of bigger outputs at most this many values are read, but never fewer than this many rows, for the sake of
# their labels.
MOST_VALUES = 1 << 16
LEAST_ROWS = 64


def strides_for(shape: Sequence[int], *, values_per_row: int = 1, most: int | None = None) -> tuple[int, ...]:
    """Return the step to take along each dimension; the biggest dimensions are thinned first."""
    wanted = max((most or MOST_VALUES) // max(values_per_row, 1), LEAST_ROWS)
    steps = [1] * len(shape)
    rows = math.prod(shape)
    for dim in sorted(range(len(shape)), key=lambda dim: -shape[dim]):
        if rows <= wanted:
            break
        steps[dim] = min(math.ceil(rows / wanted), shape[dim])
        rows = rows // shape[dim] * math.ceil(shape[dim] / steps[dim])
    return tuple(steps)


def taken(tensor: torch.Tensor, steps: Sequence[int]) -> torch.Tensor:
    """Return a view whose leading dimensions are thinned by these steps."""
    for dim, step in enumerate(steps):
        if step > 1:
            tensor = torch.ops.aten.slice(tensor, dim, None, None, step)
    return tensor


def thinned(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor, or a contiguous copy of few enough of its values."""
    if tensor.numel() <= MOST_VALUES:
        return tensor
    found = taken(tensor, strides_for(tensor.shape))
    return found.clone(memory_format=torch.contiguous_format)  # several passes over it follow


def class_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view with the classes last; a loss takes them in dimension 1."""
    return tensor.unsqueeze(0) if tensor.dim() == 1 else tensor.movedim(1, -1)
