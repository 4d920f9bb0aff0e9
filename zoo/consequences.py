"""What often follows from a fault, and is no mistake when it is said."""

from __future__ import annotations

# Of steps that are far too large.
BLOWS_UP = (
    "diverging-loss",
    "exploding-gradients",
    "update-ratio-high",
    "weight-growth",
    "loss-oscillating",
    "loss-spike",
    "activation-scale",
    "nonfinite-loss",
    "nonfinite-gradient",
    "nonfinite-weight",
    "nonfinite-activation",
)
# Of a network that cannot move, or not to anywhere better.
STANDS_STILL = ("not-learning", "loss-at-chance", "loss-plateau")
# Of a value that is not finite, in the steps and places after it.
NOT_FINITE = ("nonfinite-loss", "nonfinite-gradient", "nonfinite-weight", "nonfinite-activation")
# Of layers that are in no optimizer.
UNTRAINED = ("no-gradient", "frozen-weights", "unchanged-weights")
