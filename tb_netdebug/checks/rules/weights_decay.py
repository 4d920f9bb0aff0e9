"""The rule for a weight decay so strong that the weights forget faster than they can learn."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tb_netdebug.checks.evidence.progress import progress_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.phrases import counted, number, percent
from tb_netdebug.core.records.facts import OptimizerFact, ParameterGroup
from tb_netdebug.core.records.scalar_names import name_of_rate

# Optimizers in which each step takes rate × decay off a weight. In the others the decay is part of the
# gradient, which is then divided by its own size.
PLAIN = ("SGD", "AdamW", "ASGD")


@dataclass(frozen=True, slots=True)
class DecayLimits:
    share: float = 0.02  # of each weight in a step: half of it is gone after 35; 0.00001 is usual
    steps: float = 24  # steps in which something should have been learned
    fallen: float = 0.5  # share of the first loss that is gone: beyond it, the network copes


class WeightDecayHigh(Rule):
    """The decay takes so much of the weights in each step that they keep nothing of older batches."""

    slug = "weight-decay-high"
    when = When.STEPS
    needs = ("optimizer", "loss")
    limits = DecayLimits()

    def update(self, history: History) -> Sign | None:
        progress = progress_of(history)
        if progress is None or progress.steps < self.limits.steps or progress.fallen >= self.limits.fallen:
            return None
        rate, decay = strongest(history)
        taken = rate * decay
        if taken < self.limits.share:
            return None
        half = max(round(math.log(0.5) / math.log1p(-taken)), 1) if taken < 1 else 1
        return Sign(
            Severity.WARNING,
            f"A weight decay of {number(decay)} with a learning rate of {number(rate)} takes "
            f"{percent(taken)} off every weight in each step (more than {percent(self.limits.share)} is "
            f"too much; 0.001 % is usual): half of what a batch teaches is gone {counted(half, 'step')} "
            f"later, and the loss is still {percent(1.0 - progress.fallen)} of what it was at first.",
            "Lower the weight decay: 0.01 is usual for AdamW, and 1e-4 for SGD.",
            {
                "share of a weight that a step takes": Evidence(taken, self.limits.share),
                "share of the first loss that is gone": Evidence(progress.fallen, self.limits.fallen),
            },
            since=0,
            sureness=0.85,
        )


def strongest(history: History) -> tuple[float, float]:
    """Return learning rate and weight decay of the parameter group that decays most."""
    optimizers = [fact for fact in history.known_facts(OptimizerFact).values() if fact.class_name is not None]
    known = [
        (rate, decay)
        for fact in optimizers
        if fact.class_name in PLAIN
        for place, group in enumerate(fact.groups or ())
        if (rate := rate_of(history, group, place if len(optimizers) == 1 else None)) is not None
        if (decay := group.weight_decay) is not None
    ]
    return max(known, key=lambda each: each[0] * each[1], default=(0.0, 0.0))


def rate_of(history: History, group: ParameterGroup, place: int | None) -> float | None:
    """Return the group's rate: the present one if there is one optimizer, else the one first seen."""
    curve = None if place is None else history.curve(name_of_rate(place))
    rate: float | None = group.lr if curve is None else curve.last
    return rate
