"""Which finding explains which: the engine reports one cause with its consequences, not ten symptoms."""

from __future__ import annotations

from collections.abc import Mapping

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.core.records.cause_tree import CauseTree

# What a cause leads to. A consequence begins at the cause's step or after it; EARLY_STEPS is the slack,
# because a symptom that shows at once may be reported before a cause that takes a few steps to be sure of.
EARLY_STEPS = 50
BLOWN_UP = (
    "nonfinite-loss", "nonfinite-gradient", "nonfinite-weight", "nonfinite-activation", "loss-scale-overflow",
)  # fmt: skip
# What follows once the weights are NaN: relu, for one, may turn them into zeros.
LOST = (
    "zero-gradients", "constant-output", "dead-units", "dead-layer", "unchanged-weights", "frozen-weights",
    "not-learning", "loss-at-chance", "loss-plateau",
)  # fmt: skip
EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "nonfinite-input": (*BLOWN_UP, "not-learning", "loss-at-chance"),
    "input-scale": (
        "exploding-gradients", "diverging-loss", "loss-spike", "loss-oscillating", "saturated-units",
        "dead-units", "dead-layer", "activation-scale", "not-learning", "update-ratio-high",
    ),
    "learning-rate-high": (
        "update-ratio-high", "exploding-gradients", "diverging-loss", "loss-spike", "loss-oscillating",
        "weight-growth", "dead-units", "dead-layer", "saturated-units", "not-learning", "loss-at-chance",
        "constant-output", "activation-scale", *BLOWN_UP,
    ),
    "learning-rate-zero": (
        "unchanged-weights", "update-ratio-low", "not-learning", "loss-at-chance", "loss-plateau",
        "frozen-weights",
    ),
    "weight-decay-high": (
        "weight-collapse", "constant-output", "zero-gradients", "vanishing-gradients", "not-learning",
        "loss-at-chance", "loss-plateau", "dead-units", "dead-layer",
    ),
    "not-optimized": (
        "unchanged-weights", "frozen-weights", "update-ratio-low", "not-learning", "loss-at-chance",
        "grad-not-cleared", "loss-plateau",
    ),
    "no-gradient": (
        "unchanged-weights", "frozen-weights", "not-learning", "loss-at-chance", "zero-gradients",
    ),
    "zero-gradients": ("unchanged-weights", "not-learning", "loss-at-chance", "loss-plateau"),
    "grad-not-cleared": (
        "exploding-gradients", "diverging-loss", "update-ratio-high", "loss-oscillating", "loss-spike",
    ),
    "vanishing-gradients": (
        "update-ratio-low", "not-learning", "loss-at-chance", "unchanged-weights", "loss-plateau",
        "constant-output",
    ),
    "saturated-units": ("vanishing-gradients", "update-ratio-low", "not-learning", "loss-at-chance"),
    "dead-layer": (
        "dead-units", "zero-gradients", "frozen-weights", "unchanged-weights", "not-learning",
        "loss-at-chance", "constant-output",
    ),
    "loss-oscillating": ("loss-at-chance", "not-learning"),
    "loss-at-chance": ("not-learning",),
    "init-constant": (
        "dead-layer", "not-learning", "loss-at-chance", "zero-gradients", "constant-output", "dead-units",
    ),
    "init-scale": (
        "activation-scale", "saturated-units", "vanishing-gradients", "exploding-gradients",
        "loss-at-chance-start", "diverging-loss", "update-ratio-low", "dead-units",
    ),
    "loss-input-softmaxed": ("loss-at-chance", "not-learning", "loss-plateau", "vanishing-gradients"),
    "loss-input-logits": (
        "loss-negative", "diverging-loss", "nonfinite-loss", "not-learning", "zero-gradients",
        "loss-at-chance-start", "loss-at-chance",
    ),
    "loss-input-shape": ("not-learning", "loss-plateau", "constant-output"),
    "labels-single-class": ("not-learning", "constant-output"),
    "input-constant": ("not-learning", "loss-at-chance", "constant-output", "dead-units"),
    "input-repeated-batch": ("overfitting",),
    "labels-sorted": ("labels-single-class", "loss-oscillating", "loss-spike"),
    "eval-mode-training": ("overfitting",),
    "exploding-gradients": ("loss-spike", "diverging-loss", "update-ratio-high", *BLOWN_UP),
    "diverging-loss": BLOWN_UP,
    "nonfinite-activation": ("nonfinite-loss", "nonfinite-gradient", "nonfinite-weight"),
    "nonfinite-loss": ("nonfinite-gradient", "nonfinite-weight"),
    "nonfinite-gradient": ("nonfinite-weight", "nonfinite-loss", "unchanged-weights"),
    "nonfinite-weight": ("nonfinite-activation", "nonfinite-loss", "nonfinite-gradient", *LOST),
}  # fmt: skip
# Evidence key of a weight that was already bad when the step began: that step did not cause it.
BEFORE_FORWARD = "before the forward pass"


def explain(found: Mapping[str, Finding]) -> None:
    """Set `cause` and `consequences` of all findings.

    Each finding hangs below the first cause in EXPLAINS that was seen in time and is not itself a consequence
    of it. A note causes nothing.
    """
    for finding in found.values():
        finding.cause = None
    # A weight that was bad before the forward pass is the first cause; then the order of the table decides.
    for slug in sorted(EXPLAINS, key=lambda each: not _came_first(found.get(each))):
        cause, effects = found.get(slug), EXPLAINS[slug]
        if cause is not None and cause.severity > Severity.INFO:
            for effect in effects:
                _join(cause, effect, found)
    below = CauseTree.of({rule: finding.cause for rule, finding in found.items()}).consequences()
    for rule, finding in found.items():
        finding.consequences = sorted(below[rule], key=lambda effect: (found[effect].first_step, effect))


def weigh(found: Mapping[str, Finding]) -> None:
    """Raise the severity of each cause to that of its worst consequence: what causes an error is an error."""
    tree = CauseTree.of({rule: finding.cause for rule, finding in found.items()})
    for rule, severity in tree.worst({rule: finding.severity for rule, finding in found.items()}).items():
        found[rule].severity = Severity(severity)


def _join(cause: Finding, effect: str, found: Mapping[str, Finding]) -> None:
    finding = found.get(effect)
    # A finding cannot explain what explains it: causes form trees.
    if finding is None or finding.cause is not None or _root(cause, found) is finding:
        return
    # Where one step shows a fault, nothing that came before it can be its consequence.
    early = 0 if cause.rule in BLOWN_UP else EARLY_STEPS
    if finding.first_step >= cause.first_step - early:
        finding.cause = cause.rule


def _came_first(finding: Finding | None) -> bool:
    return finding is not None and BEFORE_FORWARD in finding.evidence


def _root(finding: Finding, found: Mapping[str, Finding]) -> Finding:
    while finding.cause is not None:
        finding = found[finding.cause]
    return finding
