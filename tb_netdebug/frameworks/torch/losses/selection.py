"""Few enough of many values, taken at equal distances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

# Of outputs this big at most so many values are looked at; but never less than so many rows, for their
# labels' sake.
MOST_VALUES = 1 << 16
LEAST_ROWS = 64


def strides_for(shape: Sequence[int], *, values_per_row: int = 1, most: int | None = None) -> tuple[int, ...]:
    """Of each dimension every how manieth to take; the biggest one is thinned first."""
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
    """A view with its leading dimensions thinned."""
    for dim, step in enumerate(steps):
        if step > 1:
            tensor = torch.ops.aten.slice(tensor, dim, None, None, step)
    return tensor


def thinned(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.numel() <= MOST_VALUES:
        return tensor
    found = taken(tensor, strides_for(tensor.shape))
    return found.clone(memory_format=torch.contiguous_format)  # several passes over it follow


def class_rows(tensor: torch.Tensor) -> torch.Tensor:
    """A view with the classes, which a loss takes in dimension 1, at the end."""
    return tensor.unsqueeze(0) if tensor.dim() == 1 else tensor.movedim(1, -1)
