"""The words that the verbs and the state choose from."""

from __future__ import annotations

from tb_netdebug.debugger.workbench import KINDS

STEPS = ("batch", "layer", "backward", "optimizer", "op")
# Where a breakpoint can stop.
PHASES = ("forward", "backward", "optimizer", "end")
# The kinds of tensors, and the numbers that a step was given.
WATCHED = (*KINDS, "scalar")
STATISTICS = (
    "nonfinite", "min", "max", "abs_max", "mean", "abs_mean", "std", "norm", "zeros", "change",
)  # fmt: skip
COMPARISONS = (">", "<", "is")
