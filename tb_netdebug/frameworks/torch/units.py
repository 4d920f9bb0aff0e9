"""Which dimension of an activation holds its units, and between which values a unit is active."""

from __future__ import annotations

import math

import torch
from torch import nn

INFINITY = math.inf

# Within these edges the slope exceeds 1/100 of its maximum; a unit that never gets there does not learn.
TANH_EDGE = math.tanh(3.0)
SIGMOID_EDGE = 1.0 / (1.0 + math.exp(-4.6))

BANDS: dict[type[nn.Module], tuple[float, float]] = {
    nn.ReLU: (0.0, INFINITY),
    nn.ReLU6: (0.0, 6.0),
    nn.Tanh: (-TANH_EDGE, TANH_EDGE),
    nn.Sigmoid: (1.0 - SIGMOID_EDGE, SIGMOID_EDGE),
    nn.Hardsigmoid: (0.0, 1.0),
}

CHANNELS_FIRST = (
    nn.modules.conv._ConvNd,
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.modules.pooling._MaxPoolNd,
    nn.modules.pooling._AvgPoolNd,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.pooling._AdaptiveMaxPoolNd,
)
CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.Embedding, nn.RNNBase, nn.MultiheadAttention)

# Beyond this there are no units in a useful sense (a flattened picture, logits over a vocabulary).
MOST_UNITS = 65536


def band(module: nn.Module) -> tuple[float, float]:
    """Return the bounds of activity: a unit is active if a nonzero value of it lies between them."""
    if isinstance(module, nn.Hardtanh) and not isinstance(module, nn.ReLU6):
        return float(module.min_val), float(module.max_val)
    return BANDS.get(type(module), (-INFINITY, INFINITY))


def unit_dim(module: nn.Module, output: torch.Tensor) -> int | None:
    """Return the dimension of the units, or None if there is none or there are too many."""
    if output.dim() < 2:
        return None
    if isinstance(module, CHANNELS_LAST):
        dim = output.dim() - 1
    # Pictures, and whatever else has four dimensions, are channels first in torch.
    elif isinstance(module, CHANNELS_FIRST) or output.dim() >= 4:
        dim = 1
    else:
        dim = output.dim() - 1
    return dim if 0 < output.shape[dim] <= MOST_UNITS else None


def blocks(output: torch.Tensor, dim: int) -> tuple[int, int, int]:
    """Return how the memory of a dense tensor, its dimensions in any order, splits: (outer, units, inner)."""
    units = output.shape[dim]
    inner = output.stride(dim) if units > 1 else 1
    return output.numel() // (units * inner), units, inner
