"""Signs in the scalars of a step that the steps around it are worth a full look. Not findings: those are judged
elsewhere, on what is recorded because of these signs."""

from __future__ import annotations

import math

# Compared with their own running mean; loss and gradient norm of a healthy run stay well within.
LOSS_JUMP = 3.0
NORM_JUMP = 10.0
# The first steps of a training are wild; there is nothing to compare with yet.
WARM_UP_STEPS = 20
SMOOTHING = 0.05


class Trouble:
    """Looks at each step's scalars; `seen` gives the reason, or None."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}
        self._steps = 0

    def seen(self, scalars: dict[str, float]) -> str | None:
        self._steps += 1
        if scalars.get("nonfinite_gradients", 0.0) > 0:
            return "a gradient is not finite"
        loss = scalars.get("loss")
        if loss is not None and not math.isfinite(loss):
            return "the loss is not finite"
        jumps = [
            self._jumps("loss", loss, LOSS_JUMP),
            self._jumps("gradient norm", scalars.get("gradient_norm"), NORM_JUMP),
        ]
        return next((jump for jump in jumps if jump), None)

    def _jumps(self, name: str, value: float | None, factor: float) -> str | None:
        if value is None or not math.isfinite(value):
            return None
        mean = self._means.get(name)
        self._means[name] = abs(value) if mean is None else mean + SMOOTHING * (abs(value) - mean)
        if mean and self._steps > WARM_UP_STEPS and abs(value) > factor * mean:
            return f"the {name} jumped from about {mean:.3g} to {value:.3g}"
        return None
