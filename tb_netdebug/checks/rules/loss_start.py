"""The rule for the very first loss: an untrained network should be unsure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.inputs import InputScaleLimits, input_places
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import of_input, of_loss

MEASURED = (
    "value", "baseline", "uniform", "accuracy", "top_share", "input_std", "target_std", "target_mean",
)  # fmt: skip

# The last layer where scores are negative distances, as to prototypes: few examples decide how high they are.
DISTANCES = "Neg"

LIMITS = InputScaleLimits()


@dataclass(frozen=True, slots=True)
class StartLimits:
    ratio: float = 3.0  # published: 1.5; ordinary initialisations stay below 1.3 …
    healthy: float = 2.5  # … and tied embeddings reach this, …
    luck: float = 2.0  # … and the mean of few answers may be this many standard errors higher by chance
    excess: float = 3.0  # nats above guessing; with two classes a factor alone means little
    wide: float = 30.0  # times: how much wider the outputs are than the targets are large
    last_step: int = 1  # anything later is not the start
    accident: float = 0.01  # chance of not one right answer by accident; below it, the network was trained
    deviations: float = 4.0  # standard deviations of right answers above accident, likewise


class LossAtChanceStart(Rule):
    """An untrained network is worse than guessing: its outputs are far too large."""

    slug = "loss-at-chance-start"
    when = When.FACTS
    needs = ("loss-call",)
    limits = StartLimits()

    def __init__(self) -> None:
        self._is_over = False

    def update(self, history: History) -> Iterable[Sign] | None:
        calls = history.known_facts(LossCallFact)
        if self._is_over or not (calls or history.step > self.limits.last_step):
            return None
        self._is_over = True
        record = history.recent[0] if history.recent else None
        if record is None or record.step > self.limits.last_step:
            return None
        is_excused = has_frozen(history) or has_large_inputs(history)
        signs = []
        for key, call in calls.items():
            seen = {name: record.scalars.get(of_loss(key, name)) for name in MEASURED}
            if call.reduction in ("mean", "sum") and seen["value"] is not None:
                rows = max(math.prod(call.target_shape or (1,)), 1)
                seen = of_one_answer(seen, call, rows)
                is_meant = is_excused or call.last_layer == DISTANCES or self._answers(seen, rows)
                severity = Severity.INFO if is_meant else Severity.WARNING
                of_each = " for each answer" if call.reduction == "sum" else ""
                signs += self._classes(seen, severity, of_each, rows) or self._numbers(seen, of_each)
        return signs

    def _answers(self, seen: dict[str, float | None], rows: int) -> bool:
        """Return whether it is right far more or less often than by accident.

        Then it was trained before, on the same or on other classes.
        """
        accuracy, uniform = seen["accuracy"], seen["uniform"]
        if accuracy is None or uniform is None:
            return False
        share = math.exp(-uniform)  # `uniform` is log(classes)
        never = (1.0 - share) ** rows < self.limits.accident
        often = share + self.limits.deviations * math.sqrt(share * (1.0 - share) / rows)
        return (accuracy == 0.0 and never) or accuracy > max(often, 1.5 * (seen["top_share"] or 0.0))

    def _classes(
        self, seen: dict[str, float | None], severity: Severity, of_each: str, rows: int
    ) -> list[Sign]:
        value, guess, limits = seen["value"], seen["uniform"], self.limits
        if value is None or guess is None or guess <= 0:
            return []
        excess, ratio = value - guess, value / guess
        # The losses of single answers spread about as widely as they are high on average.
        most = max(limits.ratio, limits.healthy * (1.0 + limits.luck / math.sqrt(max(rows, 1))))
        if not (ratio >= most and excess >= limits.excess):
            return []
        return [
            Sign(
                severity,
                f"The first loss is {number(value)}{of_each}, {number(ratio, 2)} times the {number(guess)} "
                f"that guessing among all classes would get (more than {number(most)} times is too "
                "much): the untrained network is already very sure of answers that are wrong.",
                "Make the first scores small: a smaller initialisation of the last layer, such as "
                f"{Idiom.SMALL_START_OF_LAST}, inputs of mean 0 and spread 1, a normalisation layer before "
                "the output. If the network was trained before, on other classes, this is no fault: give "
                "it a new last layer.",
                {
                    "first loss": Evidence(value, most * guess),
                    "loss of guessing": Evidence(guess),
                },
                sureness=0.8,
            )
        ]

    def _numbers(self, seen: dict[str, float | None], of_each: str) -> list[Sign]:
        """Judge numbers by the width of the outputs: targets far from zero are not the network's fault."""
        value, guess = seen["value"], seen["baseline"]
        width, spread, middle = seen["input_std"], seen["target_std"], seen["target_mean"]
        if value is None or guess is None or width is None or spread is None or middle is None:
            return []
        size = spread + abs(middle)
        if seen["uniform"] is not None or not 0 < self.limits.wide * size <= width or value <= guess:
            return []
        return [
            Sign(
                Severity.WARNING,
                f"The spread of the untrained network's outputs is {number(width / size)} times the size "
                f"of the targets (more than {number(self.limits.wide)} times is too much): the first loss "
                f"is {number(value)}{of_each}; a constant answer would get {number(guess)}.",
                "Make the first outputs small: a smaller initialisation of the last layer, or inputs of mean "
                "0 and spread 1.",
                {
                    "spread of the outputs": Evidence(width, self.limits.wide * size),
                    "size of the targets": Evidence(size),
                },
                sureness=0.85,
            )
        ]


def of_one_answer(seen: dict[str, float | None], call: LossCallFact, rows: int) -> dict[str, float | None]:
    """Return summed measurements as means over the answers that count, for a loss that is a sum."""
    if call.reduction != "sum":
        return seen
    uniform, classes = seen["uniform"], call.num_classes or 0
    count = uniform / math.log(classes) if uniform and classes > 1 else rows
    summed = {name: seen[name] for name in ("value", "baseline", "uniform")}
    return {**seen, **{name: None if value is None else value / count for name, value in summed.items()}}


def has_frozen(history: History) -> bool:
    """Return whether some parameters are frozen, which means that they were trained before."""
    parameters = [each for node in history.layers.nodes.values() for each in node.own_parameters]
    return any(not each.trainable for each in parameters)


def has_large_inputs(history: History) -> bool:
    """Return whether large inputs explain a large first loss; `input-scale` reports those where they hurt.

    Not so where some columns are large beside others: that is a mistake from the first step on.
    """
    first = history.tensors.first
    if first is None:
        return False
    return any(
        first.rms[place] > LIMITS.size and not is_uneven(history, index)
        for index, (_, place) in enumerate(input_places(history))
        if place < len(first.rms)
    )


def is_uneven(history: History, index: int) -> bool:
    ratio = history.curve(of_input(index, "feature_scale_ratio"))
    return ratio is not None and ratio.last > LIMITS.feature_scale_ratio
