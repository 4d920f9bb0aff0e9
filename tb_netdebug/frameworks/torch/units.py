"""Which dimension of an activation holds its units, and between which values a unit counts as active."""

from __future__ import annotations

import math

import torch
from torch import nn

INFINITY = math.inf

# Where the slope is above one hundredth of its maximum; a unit that never gets there does not learn.
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

# Beyond this there are no units in any useful sense (a flattened picture, a vocabulary of logits).
MOST_UNITS = 65536


def band(module: nn.Module) -> tuple[float, float]:
    """A unit is active when one of its values lies between these and is not zero."""
    if isinstance(module, nn.Hardtanh) and not isinstance(module, nn.ReLU6):
        return float(module.min_val), float(module.max_val)
    return BANDS.get(type(module), (-INFINITY, INFINITY))


def unit_dim(module: nn.Module, output: torch.Tensor) -> int | None:
    """The dimension of the units; None when there is none or there are too many."""
    if output.dim() < 2:
        return None
    if isinstance(module, CHANNELS_LAST):
        dim = output.dim() - 1
    elif isinstance(module, CHANNELS_FIRST) or output.dim() >= 4:
        dim = 1
    else:
        dim = output.dim() - 1
    return dim if 0 < output.shape[dim] <= MOST_UNITS else None


def blocks(output: torch.Tensor, dim: int) -> tuple[int, int, int]:
    """The memory of a dense tensor as [outer][units][inner], in whatever order its dimensions lie there."""
    units = output.shape[dim]
    inner = output.stride(dim) if units > 1 else 1
    return output.numel() // (units * inner), units, inner
