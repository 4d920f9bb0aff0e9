"""Statistics of a batch's features: which never change, and how different their scales are."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from tb_netdebug.frameworks.torch.host_arrays import NUMPY_TYPES, values_over

MOST_FEATURES = 4096
MOST_VALUES = 1 << 16
MOST_PICTURES = 32
# A batch of one has no spread.
FEWEST_ROWS = 2

Floats = NDArray[np.float64]


def feature_scalars(tensor: torch.Tensor) -> dict[str, float]:
    """Return the statistics of a tensor in host memory, by name.

    Features are the columns of a matrix or the channels of pictures. The result is empty for other shapes and
    for a batch of one. Scales are standard deviations over the batch.
    """
    features = features_of(tensor)
    if features is None or features.shape[1] < FEWEST_ROWS:
        return {}
    with np.errstate(all="ignore"):
        means, scales, is_constant = moments(features)
        varies = ~is_constant & np.isfinite(scales) & (scales > 0)
        found = {"constant_features": float(np.count_nonzero(is_constant) / len(features))}
        if not varies.any():
            return {**found, "feature_scale": 0.0} if is_constant.all() else found
        means, scales = means[varies], scales[varies]
        return {
            **found,
            "feature_scale": float(scales.max()),
            "feature_scale_ratio": float(scales.max() / scales.min()),
            "feature_offset": float(np.abs(means / scales).max()),
        }


def moments(features: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Return the means, the standard deviations, and which features never change.

    Differences from the first observation are averaged, so a feature that stays the same gives exact zeros.
    """
    first = features[:, :1]
    rest = features - first
    drift = np.add.reduce(rest, axis=1) / rest.shape[1]
    variances = np.einsum("ij,ij->i", rest, rest) / rest.shape[1] - drift * drift
    is_constant: NDArray[np.bool_] = np.logical_not(np.logical_or.reduce(rest != 0, axis=1))
    return first[:, 0] + drift, np.sqrt(np.maximum(variances, 0.0)), is_constant


def features_of(tensor: torch.Tensor) -> Floats | None:
    """Return features × observations, at most MOST_FEATURES and about MOST_VALUES, taken evenly."""
    if tensor.dim() not in (2, 4) or not tensor.numel():
        return None
    tensor = tensor.detach()
    tensor = tensor[:, :: step(tensor.size(1), MOST_FEATURES)]
    if tensor.dim() == 4:
        tensor = tensor[:: step(tensor.size(0), MOST_PICTURES)]
        tensor = tensor[:, :, :: step(tensor.numel(), MOST_VALUES)]
    else:
        tensor = tensor[:: step(tensor.numel(), MOST_VALUES)]
    if tensor.dtype not in NUMPY_TYPES:
        tensor = tensor.float()
    # In C order, the sums over each feature run along contiguous memory.
    values: Floats = np.moveaxis(values_over(tensor), 1, 0).astype(np.float64, order="C")
    return values.reshape(len(values), -1)


def step(size: int, most: int) -> int:
    """Return the smallest step at which a slice of `size` elements leaves at most `most`."""
    return max(-(-size // most), 1)
