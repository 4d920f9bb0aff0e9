"""The features of a batch: which never change, and how different their scales are."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tb_netdebug.capture.torch_batch_contents import NUMPY_TYPES

MOST_COLUMNS = 4096
MOST_VALUES = 1 << 18
MOST_PICTURES = 32
FEWEST_ROWS = 2

Floats = NDArray[np.float64]


def feature_scalars(tensor: torch.Tensor) -> dict[str, float]:
    """Of a tensor in host memory: features are the columns of a matrix, or the channels of pictures.

    Empty for other shapes and for a batch of one. Scales are standard deviations over the batch.
    """
    columns = columns_of(tensor)
    if columns is None or len(columns) < FEWEST_ROWS or not columns.shape[1]:
        return {}
    with np.errstate(all="ignore"):
        is_constant = columns.max(axis=0) == columns.min(axis=0)
        means, scales = columns.mean(axis=0), columns.std(axis=0)
        varies = ~is_constant & np.isfinite(scales) & (scales > 0)
        found = {"constant_features": float(is_constant.mean())}
        if not varies.any():
            return {**found, "feature_scale": 0.0} if is_constant.all() else found
        means, scales = means[varies], scales[varies]
        return {
            **found,
            "feature_scale": float(scales.max()),
            "feature_scale_ratio": float(scales.max() / scales.min()),
            "feature_offset": float(np.abs(means / scales).max()),
        }


def columns_of(tensor: torch.Tensor) -> Floats | None:
    """Rows × features, at most MOST_COLUMNS and MOST_VALUES, chosen from all over the batch."""
    if tensor.dim() not in (2, 4):
        return None
    tensor = tensor.detach()
    if tensor.dim() == 4:
        tensor = tensor[:: step(tensor.size(0), MOST_PICTURES), :: step(tensor.size(1), MOST_COLUMNS)]
        lines = tensor[:, :, :: step(tensor.numel(), MOST_VALUES)]
        tensor = lines.movedim(1, -1).flatten(0, 2)
    else:
        tensor = tensor[:, :: step(tensor.size(1), MOST_COLUMNS)]
        tensor = tensor[:: step(tensor.numel(), MOST_VALUES)]
    if tensor.dtype not in NUMPY_TYPES:
        tensor = tensor.float()
    columns: Floats = tensor.numpy().astype(np.float64)
    return columns


def step(size: int, most: int) -> int:
    """Every so many-th leaves at most `most`."""
    return max(-(-size // most), 1)
