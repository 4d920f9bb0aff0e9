"""Detect in a step's scalars that the steps around it deserve a full sample.

These are not findings: the checks make those, from what is recorded because of these signs.
"""

from __future__ import annotations

import math

from tb_netdebug.core.records.scalar_names import GRADIENT_NORM, LOSS, NONFINITE_GRADIENTS

# Factors over the running mean; loss and gradient norm of a healthy run stay well within them. The loss comes
# first: one that is not finite ends the comparison.
JUMPS = ((LOSS, 3.0), (GRADIENT_NORM, 10.0))
# The first steps of a run are wild, and there is nothing to compare with yet.
WARM_UP_STEPS = 20
# The means follow about the last 20 steps.
SMOOTHING = 0.05
# A loss that has come down to 0.001 may triple at any time: only a jump back to a tenth of the highest mean
# is worth a sample.
SHARE_OF_HIGHEST = 0.1


class Trouble:
    """Inspects each step's scalars; `seen` returns the reason for a full sample, or None."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._highest: dict[str, float] = {}
        self._steps = 0

    def seen(self, scalars: dict[str, float]) -> str | None:
        self._steps += 1
        if scalars.get(NONFINITE_GRADIENTS):
            return "a gradient is not finite"
        jumped = None
        for name, factor in JUMPS:
            if name not in scalars:
                continue
            value = scalars[name]
            if math.isfinite(value):
                jumped = self._jumps(name, value, factor) or jumped
            elif name == LOSS:
                return "the loss is not finite"
        return jumped

    def _jumps(self, name: str, value: float, factor: float) -> str | None:
        size = abs(value)
        if name not in self._means:
            self._means[name], self._highest[name] = size, 0.0
        mean = self._means[name]
        self._means[name] = mean + SMOOTHING * (size - mean)
        if mean > self._highest[name]:
            self._highest[name] = mean
        if size <= factor * mean or mean <= 0.0 or self._steps <= WARM_UP_STEPS:
            return None
        if size > SHARE_OF_HIGHEST * self._highest[name]:
            return f"the {name.replace('_', ' ')} jumped from about {mean:.3g} to {value:.3g}"
        return None
