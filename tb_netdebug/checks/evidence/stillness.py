"""Whether a network moves at all, which distinguishes a loss that stands still for good from a plateau."""

from __future__ import annotations

import numpy as np

from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import percent
from tb_netdebug.core.records.scalar_names import GRADIENT_NORM, RATES
from tb_netdebug.core.records.step import Kind

# Steps of Adam change a weight of size 0.05 by 1e-3 / 0.05 = 2 %. If the whole network moves by less than a
# millionth of its size, ten thousand steps change it by a hundredth.
LEAST_UPDATE = 1e-6
# Of the gradient at the start; a healthy run may lose two orders of magnitude in a plateau.
LEAST_GRADIENT = 1e-4


def standstill(history: History) -> tuple[bool, str]:
    """Return whether the network stands still, and why as the end of a sentence; empty if it does not."""
    rates = [curve.last for curve in history.curves(RATES)]
    if rates and max(rates) == 0.0:
        return True, "; the learning rate is 0"
    ratio = update_ratio(history)
    if ratio is not None and ratio < LEAST_UPDATE:
        return True, f"; a step changes the weights by {percent(ratio)} of their size only"
    norm = history.curve(GRADIENT_NORM)
    if norm is not None and norm.count >= 8:
        recent = norm.tail(8)
        if len(recent) and norm.highest > 0 and recent.max() < LEAST_GRADIENT * norm.highest:
            return (
                True,
                f"; the gradients have shrunk to {percent(recent.max() / norm.highest)} of what they were",
            )
        if norm.highest == 0:
            return True, "; all gradients are 0"
    return False, ""


def update_ratio(history: History) -> float | None:
    """Return update relative to weight, of the tensor that moves most; None if it is not known.

    Biases are left out: they begin near 0, where every step is large.
    """
    updates, weights = history.paired(Kind.UPDATE, Kind.WEIGHT)
    if not len(updates):
        return None
    changed, size = history.updates.past("rms", 1), history.weights.past("rms", 1)
    if not len(changed) or not len(size):
        return None
    changed, size = changed[-1][updates], size[-1][weights]
    names = history.weights.names
    is_weight = np.array([not names[place].endswith("bias") for place in weights])
    is_known = np.isfinite(changed) & np.isfinite(size) & (size > 0) & is_weight
    if not is_known.any():
        return None
    return float(np.max(changed[is_known] / size[is_known]))
