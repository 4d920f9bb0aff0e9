"""The rule for negative losses, and the list of all rules over the loss, which have modules of their own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tb_netdebug.checks.evidence.loss_calls import NEVER_NEGATIVE
from tb_netdebug.checks.evidence.loss_course import course
from tb_netdebug.checks.evidence.loss_turned import climbed
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.loss_late import LossPlateau, Overfitting
from tb_netdebug.checks.rules.loss_level import LossAtChance, NotLearning
from tb_netdebug.checks.rules.loss_rise import DivergingLoss
from tb_netdebug.checks.rules.loss_start import LossAtChanceStart
from tb_netdebug.checks.rules.loss_swing import LossOscillating, LossSpike
from tb_netdebug.checks.wording.idioms import Idiom, loss_function
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import LOSS, of_loss


@dataclass(frozen=True, slots=True)
class NegativeLimits:
    below: float = 1e-3  # rounding can make zeros negative, but not by this much


class LossNegative(Rule):
    """A loss below zero, from a function that has no such values."""

    slug = "loss-negative"
    when = When.FACTS
    needs = ("loss",)
    limits = NegativeLimits()

    def update(self, history: History) -> Sign | None:
        calls = history.known_facts(LossCallFact)
        for key, call in calls.items():
            if call.function in NEVER_NEGATIVE:
                for record in history.recent:
                    value = record.scalars.get(of_loss(key, "value"))
                    if value is not None and value < -self.limits.below:
                        return self._impossible(call, key, value, record.scalars, record.step)
        turned = climbed(history)
        if turned is not None:
            return turned
        losses = [record.scalars.get(LOSS, 0.0) for record in history.recent]
        lowest = min(filter(math.isfinite, losses), default=0.0)
        if lowest >= -self.limits.below:
            return None
        seen = course(history)
        if seen.calls.are_the_loss and seen.calls.factor < 0 and not seen.is_contest and len(calls) == 1:
            return self._turned(next(iter(calls.values())), lowest, seen.first_step)
        return None if seen.calls.are_the_loss else self._unknown(lowest)

    def _impossible(
        self, call: LossCallFact, key: int | str, value: float, scalars: dict[str, float], step: int
    ) -> Sign:
        function = call.function
        evidence = {"loss": Evidence(value, -self.limits.below)}
        for side, name in (("input", "what goes in"), ("target", "targets")):
            for end in ("min", "max"):
                known = scalars.get(of_loss(key, f"{side}_{end}"))
                if known is not None:
                    evidence[f"{end} of {name}"] = Evidence(known)
        wants = {
            "nll_loss": f"{Idiom.WANTS_LOG_PROBABILITIES}.",
            "kl_div": "Its first argument is logarithms of probabilities (`log_softmax`), its second "
            "probabilities that sum up to 1.",
            "cross_entropy": "Its targets are class numbers or probabilities from 0 to 1.",
        }
        advice = wants.get(
            function,
            f"Its targets lie between 0 and 1: scale them, or use a loss for any numbers ({Idiom.MSE_LOSS}).",
        )
        return Sign(
            Severity.ERROR,
            f"{loss_function(function)} returned {number(value, 4)} at step {step}; with valid arguments "
            "it is never below 0. Minimising it further teaches the network nothing.",
            advice,
            evidence,
            where=(call.site,) if call.site else (),
            since=step,
            sureness=0.98,
        )

    def _turned(self, call: LossCallFact, lowest: float, since: int) -> Sign:
        return Sign(
            Severity.WARNING,
            f"The loss is minus what {loss_function(call.function)} returned ({number(lowest, 4)}; "
            "below 0 is too low): each step makes the answers worse.",
            "Remove the minus sign before the loss. If it is there on purpose (to attack a network), this "
            'is no fault: checks={"loss-negative": False}.',
            {"loss": Evidence(lowest, -self.limits.below)},
            since=since,
            sureness=0.9,
        )

    def _unknown(self, lowest: float) -> Sign:
        return Sign(
            Severity.INFO,
            f"The loss is negative ({number(lowest, 4)}; below 0 is worth a look). Log-likelihoods of "
            "numbers, rewards and adversarial losses may be negative, errors and distances may not.",
            "If your loss is an error or a distance, look for a wrong sign or a missing logarithm.",
            {"loss": Evidence(lowest, -self.limits.below)},
            sureness=0.5,
        )


RULES: tuple[type[Rule], ...] = (
    LossAtChanceStart,
    LossAtChance,
    NotLearning,
    DivergingLoss,
    LossSpike,
    LossOscillating,
    LossNegative,
    Overfitting,
    LossPlateau,
)
