"""The statistics of watchpoints, from the summary of a tensor."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.sketch import LOWER, UPPER

CHANGE = "change"
NONFINITE = "nonfinite"
ABS_MEAN = "abs_mean"  # the only one that needs the bins of a summary

# The middle of each bin as a magnitude; non-finite bins have none and count in no mean.
_MIDDLES = np.where(np.isfinite(LOWER + UPPER), np.abs(LOWER / 2 + UPPER / 2), 0.0)
_MIDDLES[0x7F8] = _MIDDLES[0xFF8] = 0.0


def least(summary: Summary) -> float:
    """Return the minimum, in which infinities count; call it only if there are values other than NaN."""
    return -math.inf if summary.neg_inf else math.inf if not summary.finite else summary.min


def most(summary: Summary) -> float:
    return math.inf if summary.pos_inf else -math.inf if not summary.finite else summary.max


def abs_mean(summary: Summary) -> float:
    """Return the mean magnitude of the finite values.

    It is exact if all have one sign. Otherwise it comes from the bins, which are 1/8 of their values wide; it
    is corrected by how far the plain sum of the bins is off.
    """
    if not summary.finite:
        return math.nan
    weights = _MIDDLES[summary.bins] * summary.counts
    # Bins from 0x800 on are those of negative values.
    below = float(weights[summary.bins >= 0x800].sum())
    size = float(weights.sum())
    signed = size - 2 * below
    if not size:
        return abs(summary.sum) / summary.finite
    return max(size + (summary.sum - signed) * signed / size, abs(summary.sum)) / summary.finite


def _known(found: Callable[[Summary], float]) -> Callable[[Summary], float]:
    """Wrap a statistic: NaN, which is neither above nor below anything, if all values are NaN."""
    return lambda summary: found(summary) if summary.count > summary.nan else math.nan


# In the order of README.md. `change` needs the step before and comes from the workbench.
OF_SUMMARY: dict[str, Callable[[Summary], float]] = {
    NONFINITE: lambda summary: float(summary.nonfinite),
    "min": _known(least),
    "max": _known(most),
    "abs_max": _known(lambda summary: max(abs(least(summary)), abs(most(summary)))),
    "mean": lambda summary: summary.mean,
    ABS_MEAN: abs_mean,
    "std": lambda summary: summary.std,
    "norm": _known(lambda summary: math.inf if summary.pos_inf + summary.neg_inf else summary.norm),
    "zeros": lambda summary: summary.zeros / summary.count if summary.count else math.nan,
}
STATISTICS = (*OF_SUMMARY, CHANGE)
