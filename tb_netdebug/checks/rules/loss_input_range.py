"""The rule for targets that the network cannot reach, or that the loss cannot judge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tb_netdebug.checks.evidence.loss_looks import (
    BINARY_LOSSES,
    CLASS_LOSSES,
    REGRESSION_LOSSES,
    LossLooks,
    LossSample,
)
from tb_netdebug.checks.evidence.loss_unbounded import unbounded
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom, loss_function
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.facts import LossCallFact

Range = tuple[float, float]

# The range of values that a layer can give.
RANGES: dict[str, Range] = {
    "Sigmoid": (0.0, 1.0), "Hardsigmoid": (0.0, 1.0), "Softmax": (0.0, 1.0), "Softmax2d": (0.0, 1.0),
    "Tanh": (-1.0, 1.0), "Hardtanh": (-1.0, 1.0), "Softsign": (-1.0, 1.0),
    "ReLU": (0.0, math.inf), "ReLU6": (0.0, 6.0), "Softplus": (0.0, math.inf),
    "LogSoftmax": (-math.inf, 0.0), "LogSigmoid": (-math.inf, 0.0),
    "ELU": (-1.0, math.inf), "SELU": (-1.76, math.inf), "GELU": (-0.17, math.inf), "SiLU": (-0.28, math.inf),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class RangeLimits:
    excess: float = 0.1  # relative to the span of the targets: noise around the end of the range is usual
    clear_excess: float = 0.25  # this far beyond, one batch is enough
    looks: float = 3  # otherwise it takes this many: a batch may hold an outlier
    unseen_looks: float = 12  # before the range is inferred from the network's outputs
    edge: float = 0.03  # how close a bounded output comes to its end when the target lies beyond
    divisor: float = (
        1e-3  # share that lies on each side of 0, for a sum that divides the loss: less is rounding
    )
    binary_excess: float = 1e-3  # targets of yes-or-no losses are shares; this is rounding


class LossInputRange(Rule):
    """Targets lie where the last layer cannot reach, or outputs or targets where the loss has no meaning."""

    slug = "loss-input-range"
    when = When.FACTS
    needs = ("loss-call",)
    limits = RangeLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("target_min", "target_max", "target_mean", "input_min", "input_max")
        self._seen: dict[int, InputRange] = {}

    def update(self, history: History) -> Iterator[Sign]:
        if history.facts(LossCallFact):
            yield from other_classes(history)
        yield from unbounded(history, self.limits.divisor)
        for look in self._looks.fresh(history):
            if look.function in BINARY_LOSSES:
                yield from self._binary(look)
            elif look.function in REGRESSION_LOSSES:
                yield from self._regression(look)

    def _binary(self, look: LossSample) -> Iterator[Sign]:
        low, high = look["target_min"], look["target_max"]
        limit = self.limits.binary_excess
        if low < -limit or high > 1 + limit:
            yield Sign(
                Severity.ERROR,
                f"{loss_function(look.function)} is given targets from {number(low)} to {number(high)}, "
                "but it expects them between 0 (no) and 1 (yes). Outside that range the loss can fall "
                "below 0 without end.",
                "Bring the targets to 0 and 1, for example `(target > 0).float()`, or use a loss for "
                f"numbers such as {Idiom.MSE_LOSS}.",
                {"lowest target": Evidence(low, 0.0), "highest target": Evidence(high, 1.0)},
                where=(look.place,),
                sureness=0.97,
            )

    def _regression(self, look: LossSample) -> Iterator[Sign]:
        seen = self._seen.setdefault(look.number, InputRange(look.step))
        seen.add(look, self.limits)
        known = RANGES.get(look.last_layer)
        reach = known or seen.reach(self.limits)
        if reach is None:
            return
        low, high = look["target_min"], look["target_max"]
        span = high - low
        excess = max(reach[0] - low, high - reach[1]) / span if span > 0 else 0.0
        margin = self.limits.excess * span
        seen.beyond = seen.beyond + 1 if excess > self.limits.excess else 0
        if seen.beyond >= self.limits.looks or (known and excess > self.limits.clear_excess):
            yield unreachable(look, reach, known is not None, margin, since=seen.since)


@dataclass(slots=True)
class InputRange:
    """The outputs that one loss call has been given so far, and how often targets lay beyond their range."""

    since: int
    looks: int = 0
    lowest: float = math.inf
    highest: float = -math.inf
    at_floor: int = 0
    at_ceiling: int = 0
    at_minus_one: int = 0
    beyond: int = 0

    def add(self, look: LossSample, limits: RangeLimits) -> None:
        low, high = look["input_min"], look["input_max"]
        self.looks += 1
        self.lowest, self.highest = min(self.lowest, low), max(self.highest, high)
        self.at_floor = self.at_floor + 1 if low == 0.0 else 0
        self.at_ceiling = self.at_ceiling + 1 if 1 - limits.edge <= high <= 1.0 else 0
        self.at_minus_one = self.at_minus_one + 1 if -1.0 <= low <= limits.edge - 1 else 0

    def reach(self, limits: RangeLimits) -> Range | None:
        """Return the range that the output seems to have: it often reaches the end and never exceeds it."""
        looks = limits.unseen_looks
        if self.at_floor >= looks and self.lowest == 0.0 and self.highest > 0.0:
            return 0.0, 1.0 if self.at_ceiling >= looks and self.highest <= 1.0 else math.inf
        if self.at_ceiling >= looks and self.highest <= 1.0 and self.lowest >= -1.0:
            return (0.0 if self.lowest >= 0.0 else -1.0), 1.0
        if self.at_minus_one >= looks and self.lowest >= -1.0 and self.highest <= 1.0:
            return -1.0, 1.0
        return None


def unreachable(look: LossSample, reach: Range, is_known: bool, margin: float, *, since: int) -> Sign:
    low, high = look["target_min"], look["target_max"]
    source = f"the last layer, a {look.last_layer}," if is_known else "the output of the network"
    span = f"from {reach[0]:g} to {reach[1]:g}".replace("from -inf to", "up to").replace("to inf", "upwards")
    is_hopeless = not reach[0] - margin <= look["target_mean"] <= reach[1] + margin
    return Sign(
        Severity.ERROR if is_hopeless else Severity.WARNING,
        f"The targets go from {number(low)} to {number(high)}, but {source} gives numbers {span} only: "
        "targets beyond can never be reached.",
        f"Remove the activation behind the last {Idiom.LINEAR} layer, or scale the targets into its range, "
        "and the answers back.",
        {
            "lowest target": Evidence(low, reach[0] - margin if math.isfinite(reach[0]) else None),
            "highest target": Evidence(high, reach[1] + margin if math.isfinite(reach[1]) else None),
        },
        where=(look.place,),
        since=since,
        sureness=0.95 if is_known else 0.8,
    )


def other_classes(history: History) -> Iterator[Sign]:
    """Compare `num_classes=` of `watch` with the number of scores that the loss is given."""
    wanted = settings_of(history).get("num_classes")
    calls = [call for call in history.known_facts(LossCallFact).values() if call.function in CLASS_LOSSES]
    known = [(call, call.num_classes) for call in calls if call.num_classes]
    if not isinstance(wanted, int) or not known or any(classes == wanted for _, classes in known):
        return
    call, classes = known[0]
    yield Sign(
        Severity.WARNING,
        f"The network gives scores for {classes} classes, but watch() was given num_classes={wanted}.",
        "Give the last layer as many outputs as there are classes, or correct num_classes in watch().",
        {"classes of the scores": Evidence(float(classes), float(wanted))},
        where=(call.site or call.function,),
        sureness=0.9,
    )


def settings_of(history: History) -> dict[str, Any]:
    settings = history.info.get("settings")
    return settings if isinstance(settings, dict) else {}
