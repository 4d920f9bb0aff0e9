"""Sparklines: the course of a number over time in one line of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

BARS = "▁▂▃▄▅▆▇█"
NOT_FINITE = "×"
# Draw logarithmically if the largest value is more than this many times the smallest: otherwise a loss that
# blows up would flatten everything before it.
LOGARITHMIC_FROM = 1e3
# For terminals without UTF-8.
PLAIN_BARS = "_.-=+*%#"
PLAIN_NOT_FINITE = "x"


def sparkline(values: Doubles | Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """Return at most `width` characters, each the mean of its share of the values; a cross if non-finite."""
    if len(values) == 0 or width < 1:
        return ""
    bars, cross = (PLAIN_BARS, PLAIN_NOT_FINITE) if ascii_only else (BARS, NOT_FINITE)
    values = np.asarray(values, np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return cross * min(width, len(values))
    scaled = values / max(np.abs(finite).max(), np.finfo(float).tiny)  # sums of big numbers must not overflow
    if finite.min() > 0 and finite.max() > LOGARITHMIC_FROM * finite.min():
        scaled = np.log(values)
    parts = np.array_split(scaled, min(width, len(values)))
    # NaN marks a part with non-finite values; an infinity would spoil the scale.
    heights = np.array([part.mean() if np.isfinite(part).all() else np.nan for part in parts])
    known = heights[np.isfinite(heights)]
    low, high = (known.min(), known.max()) if len(known) else (0.0, 0.0)
    if not high > low:  # a constant is drawn along the middle
        low, high = low - 3.0, high + 4.0
    places = (heights - low) / (high - low) * (len(bars) - 1)
    return "".join(bars[round(place)] if np.isfinite(place) else cross for place in places.tolist())
