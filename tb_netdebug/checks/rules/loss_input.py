"""Rules over the input of a loss function: whether it is what that function expects."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from tb_netdebug.checks.evidence.loss_looks import LossLooks, LossSample, rows
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.loss_input_range import LossInputRange
from tb_netdebug.checks.rules.loss_input_shape import LossInputShape
from tb_netdebug.checks.wording.idioms import Idiom, loss_function
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.facts import LossCallFact


@dataclass(frozen=True, slots=True)
class SoftmaxedLimits:
    row_sum_error: float = 1e-4  # rounding leaves 1e-7; sums of 16-bit numbers have the next limit
    half_row_sum_error: float = 1e-2  # the same for 16-bit numbers
    rows: float = 8  # one row may add up to 1 by chance, this many do not
    looks: float = 16  # samples for which scores may lie in (0, 1) by chance before it is called a sigmoid
    spread: float = 0.7  # a sigmoid that learns uses its range; scores would not stop at its ends


class LossInputSoftmaxed(Rule):
    """Probabilities are handed to a loss that makes probabilities of its input itself."""

    slug = "loss-input-softmaxed"
    when = When.FACTS
    needs = ("loss-call",)
    limits = SoftmaxedLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("row_sum_error", "outside_01", "row_logsumexp_error")
        self._binary_looks = LossLooks(
            "outside_01", "input_min", "input_max", "input_mean", "target_mean", "target_min", "target_max"
        )
        self._bounded: dict[int, Bounded] = {}

    def update(self, history: History) -> Iterator[Sign]:
        for call in history.facts(LossCallFact):
            yield from self._of_layer(call)
        for look in self._looks.fresh(history):
            if look.function == "cross_entropy":
                yield from self._of_rows(look)
        for look in self._binary_looks.fresh(history):
            # if the last layer is known, its class tells what it gives
            if look.function == "binary_cross_entropy_with_logits" and not look.last_layer:
                yield from self._of_range(look)

    def _of_layer(self, call: LossCallFact) -> Iterator[Sign]:
        layer, function = call.last_layer, call.function
        if function == "cross_entropy" and layer in ("Softmax", "Softmax2d"):
            yield twice(call, f"The input comes out of a {layer}", {"last layer": Evidence(str(layer))})
        elif function == "cross_entropy" and layer == "LogSoftmax":
            yield harmless(call, {"last layer": Evidence("LogSoftmax")})
        elif function == "binary_cross_entropy_with_logits" and layer == "Sigmoid":
            yield squashed(call, "The input comes out of a Sigmoid", {"last layer": Evidence("Sigmoid")})

    def _of_rows(self, look: LossSample) -> Iterator[Sign]:
        limits = self.limits
        is_half = "16" in look.call.input_dtype
        limit = limits.half_row_sum_error if is_half else limits.row_sum_error
        if rows(look.call) < limits.rows or not look["row_sum_error"] < limit or look["outside_01"] != 0:
            return
        error = number(look["row_sum_error"], 1)
        seen = (
            f"Every row given to {loss_function(look.function)} adds up to 1 (to within {error}; "
            f"{number(limit, 1)} is near enough)"
        )
        yield twice(look.call, seen, {"distance of row sums from 1": Evidence(look["row_sum_error"], limit)})

    def _of_range(self, look: LossSample) -> Iterator[Sign]:
        bounded = self._bounded.setdefault(look.number, Bounded(look.step))
        bounded.add(look)
        limits = self.limits
        if bounded.is_broken or bounded.looks < limits.looks:
            return
        if bounded.spread >= limits.spread or bounded.is_stuck(limits.looks):
            lowest = number(look["input_min"], 2)
            seen = f"In {bounded.looks} sampled steps, all inputs lay between {lowest} and 1"
            evidence = {
                "looks with all inputs between 0 and 1": Evidence(float(bounded.looks), limits.looks),
                "largest input": Evidence(look["input_max"], 1.0),
            }
            yield squashed(look.call, seen, evidence, since=bounded.since, sureness=0.85)


@dataclass(slots=True)
class Bounded:
    """Whether the scores for a yes-or-no loss have stayed strictly between 0 and 1."""

    since: int
    looks: int = 0
    is_broken: bool = False
    spread: float = 0.0
    gaps: list[float] = field(default_factory=list)

    def add(self, look: LossSample) -> None:
        if not (look["outside_01"] == 0 and look["input_min"] > 0.0 and look["input_max"] < 1.0):
            self.is_broken = True  # scores that were outside once are scores
            return
        self.looks += 1
        self.spread = max(self.spread, look["input_max"] - look["input_min"])
        # The loss applies a sigmoid to its input, so this is the mean answer that it judges.
        answer = 1 / (1 + math.exp(-look["input_mean"]))
        if look["target_min"] < 0.5 < look["target_max"]:
            self.gaps = [*self.gaps[-15:], answer - look["target_mean"]]

    def is_stuck(self, looks: float) -> bool:
        """Return whether the answer is yes too often and cannot come down: sigmoid(0) is already one half."""
        return self.looks >= 2 * looks and len(self.gaps) >= 8 and sum(self.gaps) / len(self.gaps) > 0.1


def lowest_loss(classes: int | None) -> float:
    """Return the loss of a perfect answer when its probabilities are taken for scores."""
    # Such an answer has a score of 1 for the right class and of 0 for the n - 1 others, and cross entropy of
    # these scores is log(e + n - 1) - 1.
    return math.log(1 + (max(classes or 2, 2) - 1) / math.e)


def twice(call: LossCallFact, seen: str, evidence: dict[str, Evidence]) -> Sign:
    lowest = lowest_loss(call.num_classes)
    return Sign(
        Severity.ERROR,
        f"{seen}: {Idiom.CROSS_ENTROPY} is given probabilities, but it expects raw scores and applies "
        f"softmax itself. Softmax is applied twice: even a perfect answer has a loss of {lowest:.2f} "
        "instead of 0, and gradients are small.",
        f"Remove the softmax before the loss: return the output of the last {Idiom.LINEAR} layer as it is, "
        "and call softmax only where you need probabilities, for example to show them.",
        {**evidence, "lowest loss that can be reached": Evidence(lowest, 0.0)},
        where=(call.site or "cross_entropy",),
        sureness=0.98,
    )


def squashed(
    call: LossCallFact,
    seen: str,
    evidence: dict[str, Evidence],
    *,
    since: int | None = None,
    sureness: float = 0.98,
) -> Sign:
    return Sign(
        Severity.ERROR,
        f"{seen}: {Idiom.BINARY_CROSS_ENTROPY_WITH_LOGITS} is given probabilities, but it expects raw "
        "scores and applies the sigmoid itself. Applied twice, it gives answers from 0.50 to 0.73 only: "
        "never a certain no.",
        f"Remove the sigmoid before the loss, or {Idiom.USE_PROBABILITIES}. Without the sigmoid, an answer "
        "is yes when the score is above 0.",
        evidence,
        where=(call.site or "binary_cross_entropy_with_logits",),
        since=since,
        sureness=sureness,
    )


def harmless(call: LossCallFact, evidence: dict[str, Evidence]) -> Sign:
    return Sign(
        Severity.INFO,
        f"The input comes out of a LogSoftmax, and {Idiom.CROSS_ENTROPY} applies log-softmax itself. "
        "Applying it 2 times gives the same result as once: the second one only costs time.",
        f"Remove one of them: either drop the LogSoftmax layer, or {Idiom.KEEP_LOG_SOFTMAX}.",
        evidence,
        where=(call.site or "cross_entropy",),
        sureness=0.98,
    )


@dataclass(frozen=True, slots=True)
class LogitsLimits:
    row_logsumexp_error: float = 0.1  # logarithms of probabilities leave 1e-6; even bfloat16 leaves 0.02
    above_zero: float = 1e-2  # a logarithm of a probability is never above 0
    outside: float = 1e-3  # how far a probability may lie beyond 0 or 1 by rounding


class LossInputLogits(Rule):
    """Raw scores are given to a loss that expects probabilities, or either to one that expects logarithms."""

    slug = "loss-input-logits"
    when = When.FACTS
    needs = ("loss-call",)
    limits = LogitsLimits()

    def __init__(self) -> None:
        self._looks = LossLooks("value", "row_logsumexp_error", "outside_01", "input_min", "input_max")

    def update(self, history: History) -> Iterator[Sign]:
        for look in self._looks.fresh(history):
            limits = self.limits
            if look.function == "nll_loss" and look["row_logsumexp_error"] > limits.row_logsumexp_error:
                factor, rounding = times(look["row_logsumexp_error"]), times(limits.row_logsumexp_error)
                yield unprepared(
                    look,
                    f"here they miss that by a factor of {number(factor)} (up to {number(rounding, 2)} is "
                    "rounding)",
                    {"factor by which rows miss a sum of 1": Evidence(factor, rounding)},
                )
            elif look.function == "kl_div" and look["input_max"] > limits.above_zero:
                largest = Evidence(look["input_max"], limits.above_zero)
                yield unprepared(
                    look,
                    f"here the largest is {number(look['input_max'])} (up to {number(limits.above_zero)} is "
                    "rounding)",
                    {"largest input": largest},
                )
            elif look.function == "binary_cross_entropy" and is_outside(look, limits.outside):
                yield clipped(look, limits.outside)


def is_outside(look: LossSample, limit: float) -> bool:
    return look["input_min"] < -limit or look["input_max"] > 1.0 + limit


def clipped(look: LossSample, limit: float) -> Sign:
    """Report scores outside of 0 to 1: Keras accepts them silently, torch raises."""
    low, high = look["input_min"], look["input_max"]
    return Sign(
        Severity.ERROR,
        f"{Idiom.BINARY_CROSS_ENTROPY} is given raw scores from {number(low)} to {number(high)}, but it "
        f"expects probabilities from 0 to 1 ({number(limit)} beyond is rounding). It takes lower scores "
        "for 0 and higher ones for 1, and those get no gradient.",
        'End the network in a sigmoid, `Dense(1, activation="sigmoid")`, or keep the scores and tell the '
        "loss: `keras.losses.BinaryCrossentropy(from_logits=True)`.",
        {"lowest input": Evidence(low, 0.0), "highest input": Evidence(high, 1.0)},
        where=(look.place,),
        sureness=0.97,
    )


def times(logarithm: float) -> float:
    """Return the exponential of a logarithm, capped at what a float can hold."""
    return math.exp(min(logarithm, 600.0))


def unprepared(look: LossSample, seen: str, evidence: dict[str, Evidence]) -> Sign:
    given = "probabilities" if look["outside_01"] == 0 else "raw scores"
    return Sign(
        Severity.ERROR,
        f"{loss_function(look.function)} is given {given}, but {Idiom.EXPECTS_LOG_PROBABILITIES}; {seen}. "
        "The loss then has no lower bound, and does not show how good the answers are.",
        f"{Idiom.GIVE_LOG_PROBABILITIES}"
        + (f", {Idiom.OR_GIVE_SCORES}." if look.function == "nll_loss" else "."),
        evidence,
        where=(look.place,),
        sureness=0.97,
    )


RULES: tuple[type[Rule], ...] = (LossInputSoftmaxed, LossInputLogits, LossInputShape, LossInputRange)
