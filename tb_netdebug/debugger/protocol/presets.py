"""The recommended watchpoints, and the advice for each hit.

A watchpoint judges one step, a check of docs/checks.md a whole run. The thresholds here are wider, since a
single step has to be enough. Where both mean the same thing, the slugs are the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Preset:
    preset: str
    title: str
    kind: str
    statistic: str
    comparison: str
    threshold: float | None
    advice: str
    tensors: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


PRESETS = (
    Preset(
        "nonfinite-loss", "The loss is NaN or infinite", "loss", "nonfinite", "is", None,
        "Go back through what produced it: look at `output` of the last layers and at the batch. Lower the "
        "learning rate; add 1e-8 inside log, sqrt and denominators.",
    ),
    Preset(
        "nonfinite-gradient", "A gradient holds NaN or infinity", "gradient", "nonfinite", "is", None,
        "The next update would spread it to the weights. Look after this layer for sqrt, norm, log, "
        "division and powers of something that may be 0, and add 1e-8 there. With a gradient scaler, an "
        "occasional step like this is normal.",
    ),
    Preset(
        "nonfinite-weight", "A weight holds NaN or infinity", "weight", "nonfinite", "is", None,
        "No update can repair it: go back to a checkpoint. The cause came earlier, usually a gradient or "
        "the loss.",
    ),
    Preset(
        "nonfinite-activation", "An output holds NaN or infinity", "output", "nonfinite", "is", None,
        "It begins in the first layer of the list, unless the `input` of that layer holds it already. Look "
        "for a division by 0, the root or logarithm of a negative number, exp of a large one, more than "
        "65504 in float16. Minus infinity before a softmax is a mask, and intended.",
    ),
    Preset(
        "nonfinite-input", "The batch holds NaN or infinity", "batch", "nonfinite", "is", None,
        "A missing value in a table, a feature divided by a standard deviation of 0, or a damaged file: "
        "find the rows, and drop or fill them.",
    ),
    Preset(
        # The check's limit is 1000 for the norm of all gradients together. A single tensor is a part of that,
        # and 100 is ten times what clipping at 10, the widest usual, would let through.
        "exploding-gradients", "A gradient is very large", "gradient", "norm", ">", 100.0,
        "Clip between backward and the optimizer's step: "
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0). Lower the learning rate; scale inputs "
        "and targets to about -1 to 1.",
    ),
    Preset(
        # MindInsight uses 1e-9 for the mean size; the largest value is several times that. Others warn from a
        # mean of 1e-7 on, which healthy deep networks reach.
        "vanishing-gradients", "A gradient is almost 0", "gradient", "abs_max", "<", 1e-8,
        "This layer does not learn. Look for .detach(), rounding or a comparison between it and the loss, "
        "and for dead or saturated units after it. Use ReLU or GELU, a normalization, or skip connections.",
    ),
    Preset(
        # In a healthy network, half to three quarters of a ReLU's outputs are 0.
        "dead-layer", "An output is nearly all 0", "output", "zeros", ">", 0.99,
        "The input does not get past this layer. Lower the learning rate; use nn.LeakyReLU(0.01) or "
        "nn.GELU(); look for large negative biases before it. Padding embeddings, and dropout with a high "
        "rate, are 0 on purpose.",
    ),
    Preset(
        # Half of 65504, the largest number of float16: the next doubling is infinite.
        "precision-headroom", "An output is nearly too large for float16", "output", "abs_max", ">", 32752.0,
        "In float32 and bfloat16 this is merely large. In float16, doubling it gives infinity: use "
        "bfloat16, a normalization, or scaled inputs.",
    ),
    Preset(
        # Below the spacing of float32 (6e-8 of a value): an optimizer that moves anything moves more.
        "unchanged-weights", "A weight does not change", "weight", "change", "<", 1e-8,
        "Check that it is in the optimizer and has a gradient: look at `gradient` of the same name and at "
        "the learning rate. In 16 bits, small updates are rounded away. Leave out weights that are frozen "
        "on purpose with a pattern.",
    ),
    Preset(
        # About 0.001 is usual, 0.01 to 0.1 in small networks; the check warns from 0.2 on if the loss does
        # not fall. Biases that begin at 0 change by more than their own size at first, so they are left out.
        "update-ratio-high", "A step changes a weight by a large part of it", "weight", "change", ">", 0.2,
        "This undoes what was learned. Lower the learning rate to a tenth, or warm it up; clip the "
        "gradients.",
        tensors=r"weight$|kernel$",
    ),
    Preset(
        # For a recheck before the first update. Biases begin at 0, and the pattern leaves them out.
        "init-constant", "A matrix is all 0", "weight", "zeros", ">", 0.999,
        "If it starts like this, all units compute the same and stay the same: keep the framework's "
        "initialization. A last layer, or a branch that is added to something, may start at 0.",
        tensors=r"weight$|kernel$",
    ),
)  # fmt: skip
BY_SLUG = {each.preset: each for each in PRESETS}

# For watchpoints of the user's own: the statistic suggests what to look at next.
_GENERAL = {
    (
        "nonfinite",
        "is",
    ): "Look at what runs before it: the first hit is nearest to the cause.",
    ("change", ">"): "It changes fast: lower the learning rate, or look at its gradient.",
    (
        "change",
        "<",
    ): "It hardly changes: look at its gradient and at the learning rate, and check whether it is frozen.",
    ("zeros", ">"): "Most of it is 0: look at its inputs, at masks and at dead units before it.",
    ("std", "<"): "Its values are nearly all the same: check whether its inputs differ at all.",
}
_LARGE = (
    "It is larger than you expected: compare it with the step before, and look at what it is computed from."
)
_SMALL = (
    "It is smaller than you expected: compare it with the step before, and look at what it is computed from."
)


def advice_for(kind: str, statistic: str, comparison: str, preset: str | None) -> str:
    """Return the advice of the preset, of one with the same condition, or a general one."""
    if preset in BY_SLUG:
        return BY_SLUG[preset].advice
    for each in PRESETS:
        if (kind, statistic, comparison) == (each.kind, each.statistic, each.comparison):
            return each.advice
    return _GENERAL.get((statistic, comparison)) or (_LARGE if comparison == ">" else _SMALL)
