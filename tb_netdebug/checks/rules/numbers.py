"""Rules over non-finite values: where they came up, and when. No thresholds: one such value is enough."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tb_netdebug.checks.causes import BEFORE_FORWARD
from tb_netdebug.checks.evidence.numbers_left_out import (
    has_left_out,
    has_stepped_on_nonfinite,
    left_out_gradients,
)
from tb_netdebug.checks.evidence.parameters import parameters_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.numbers_forward import (
    CLEAN,
    MOST_NAMED,
    NonfiniteActivation,
    NonfiniteInput,
    is_skipped,
    losses,
    nonfinite,
)
from tb_netdebug.checks.rules.numbers_precision import LossScaleOverflow, PrecisionHeadroom
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.nonfinite_origin import LEFT_OUT, TracedOrigin, traced_origin
from tb_netdebug.checks.wording.phrases import agree, counted, named, number, percent
from tb_netdebug.core.records.facts import NonfiniteFact
from tb_netdebug.core.records.scalar_names import (
    LOSS,
    LOSS_LEFT_OUT,
    NONFINITE_GRADIENTS,
    RATES,
)
from tb_netdebug.core.records.step import Kind, StepRecord

TAKEN_UP = " Unless this step is left out, it writes NaN into the weights."
UNHARMED = " The gradients of this step are finite, so it writes no NaN into the weights."


class NonfiniteLoss(Rule):
    """The loss is NaN or infinite."""

    slug = "nonfinite-loss"
    when = When.STEPS
    needs = ("loss",)

    def __init__(self) -> None:
        self._first: tuple[StepRecord, str, float] | None = None
        self._fact: object = None  # the fact with the origin, as reported last
        self._line = ""  # the line at which a loss made it

    def update(self, history: History) -> Iterator[Sign]:
        fact = history.fact(NonfiniteFact)
        if fact is not None and fact is not self._fact:
            origin = TracedOrigin.of(fact, history.step)
            is_news = self._fact is None or origin.is_of_another or self._is_new_line(origin)
            if self._first is not None and is_news:
                yield replace(self._sign(history, *self._first), knows_more=True)  # it is known only now
            self._line = self._line or origin.line
            yield from self._unrecorded(origin)
        self._fact = fact
        for record in history.recent:
            for name, value in losses(record):
                if not math.isfinite(value):
                    self._first = self._first or (record, name, value)
                    yield self._sign(history, record, name, value)
                    break

    def _is_new_line(self, origin: TracedOrigin) -> bool:
        """Return whether a later NaN of the loss shows the line that was not known of the first one."""
        return origin.what == "loss" and bool(origin.line) and not self._line

    def _unrecorded(self, origin: TracedOrigin) -> Iterator[Sign]:
        """Report a loss that no scalar here shows: of a batch that was left out, or of another process.

        A NaN that comes from a model is reported for its layers.
        """
        if origin.what not in ("loss", "unknown") or origin.masked_only:
            return
        kind = {"NaN": math.nan, "Inf": math.inf}.get(origin.kind, -math.inf)
        whose = "of a batch" if origin.left_out else origin.on_rank.strip()
        message = f"The loss {whose} is {text(kind)} at step {origin.step}.{of_loss(origin)}"
        if origin.left_out:
            yield left_out_sign(message, origin, origin.step)
        elif origin.is_of_another:
            sign = bad_loss_sign(message, origin, origin.evidence(), origin.step)
            yield replace(sign, knows_more=True)

    def _sign(self, history: History, record: StepRecord, name: str, value: float) -> Sign:
        last = last_finite(history, name, record.step)
        before = "" if last is None else f"; the last finite loss was {number(last, 4)}"
        origin = traced_origin(history, record.step)
        place = "" if origin is None else of_loss(origin)
        evidence = {**({} if origin is None else origin.evidence()), "loss": Evidence(value)}
        if is_skipped(record) or has_left_out(record):
            who = "the gradient scaler" if is_skipped(record) else "the program"
            return Sign(
                Severity.INFO,
                f"The loss of step {record.step} was {text(value)}{before}, and {who} left this step "
                f"out.{place}",
                "Do nothing while it is rare: mixed precision now and then exceeds what 16 bits can hold.",
                evidence,
                since=record.step,
                sureness=0.5,
            )
        message = f"The loss is {text(value)} at step {record.step}{before}.{place}"
        if record.scalars.get(LOSS_LEFT_OUT):
            return left_out_sign(message, origin, record.step, evidence)
        are_numbers = record.scalars.get(NONFINITE_GRADIENTS) == 0.0
        return bad_loss_sign(message, origin, evidence, record.step, UNHARMED if are_numbers else TAKEN_UP)


class NonfiniteGradient(Rule):
    """A gradient holds NaN or infinity, and an optimizer has stepped on it."""

    slug = "nonfinite-gradient"
    when = When.STEPS
    needs = ("gradient-norm",)

    def __init__(self) -> None:
        self._first: tuple[StepRecord, float] | None = None
        self._origin: TracedOrigin | None = None

    def update(self, history: History) -> Iterator[Sign]:
        origin = traced_origin(history, history.step)
        if self._first is not None and origin != self._origin and origin is not None and origin.is_of_another:
            yield replace(self._sign(history, *self._first), knows_more=True)  # the origin arrived only now
        self._origin = origin
        left_out = left_out_gradients(history)
        if left_out is not None:
            yield replace(left_out, refreshes=True)
        for record in history.recent:
            if has_stepped_on_nonfinite(record):
                count = record.scalars[NONFINITE_GRADIENTS]
                self._first = self._first or (record, count)
                yield self._sign(history, record, count)

    def _sign(self, history: History, record: StepRecord, count: float) -> Sign:
        origin = traced_origin(history, record.step)
        evidence = {"values that are no numbers": Evidence(count, 0.0)}
        if origin is not None and origin.what == "gradient" and origin.step == record.step:
            evidence.update(origin.evidence())
            opening = origin.opening()
        else:
            opening = ""
        places = tuple(sample.series.name for sample in nonfinite(record, Kind.GRADIENT))[:MOST_NAMED]
        loss = record.scalars.get(LOSS, math.nan)
        but = " although the loss is finite" if math.isfinite(loss) else ""
        return Sign(
            Severity.ERROR,
            f"{counted(count, 'value')} of the gradients {agree(count, 'is', 'are')} NaN or "
            f"infinite{but}.{of_gradient(origin, record.step)} The optimizer writes them into the weights, "
            "and the network is lost.",
            "Look at the operations behind the layers named here: sqrt, norm, log, division and x ** y "
            "have no slope at 0; add 1e-8 below the root or in the denominator. If the loss grew before, "
            f"lower the learning rate or clip: {Idiom.CLIP_AND_CHECK}.{opening}",
            evidence,
            places,
            since=record.step,
            sureness=0.98,
        )


class NonfiniteWeight(Rule):
    """A weight holds NaN or infinity; a frozen mask of infinities is intended."""

    slug = "nonfinite-weight"
    when = When.SAMPLES
    needs = ("weights",)

    def __init__(self) -> None:
        self._is_traced = False

    def update(self, history: History) -> Iterator[Sign]:
        origin = traced_origin(history, history.step)
        if origin is not None and origin.what == "parameter" and not self._is_traced:
            self._is_traced = True
            yield self._traced(history, origin)
        seen = self._seen(history)
        if seen is not None:  # once traced, other weights only show what has become of it
            yield replace(seen, where=()) if self._is_traced else seen

    def _traced(self, history: History, origin: TracedOrigin) -> Sign:
        return Sign(
            Severity.ERROR,
            f"{origin.weight} held {origin.made_of} before the forward pass of step {origin.step}"
            f"{origin.on_rank}: that step did not make it. {writers(history, origin)}",
            f"{cure_of(history, origin)} Then go back to a checkpoint from before.{origin.opening()}",
            {**origin.evidence(), BEFORE_FORWARD: Evidence(True)},
            (f"{origin.where}.{origin.tensor}" if origin.tensor else origin.where,),
            since=origin.step,
            sureness=1.0,
            knows_more=True,
        )

    def _seen(self, history: History) -> Sign | None:
        now = history.weights.now
        if now is None or not (now.nonfinite > 0).any():
            return None
        known = parameters_of(history)
        nan, infinite = (known.column(history, Kind.WEIGHT, each) for each in ("nan", "infinite"))
        bad = (nan > 0) | ((infinite > 0) & known.trainable)
        if not bad.any():
            return None
        count = float((nan + infinite)[bad].sum())
        share = count / float(known.column(history, Kind.WEIGHT, "count")[bad].sum())
        return Sign(
            Severity.ERROR,
            f"{counted(count, 'value')} ({percent(share)}) of {counted(bad.sum(), 'weight tensor')} "
            f"{agree(count, 'is', 'are')} NaN or infinite (0 should be). Every output that they touch is "
            "NaN as well: the network cannot recover.",
            "Go back to the last checkpoint from before this step, and fix what came first: see the first "
            "finding, or lower the learning rate and clip the gradients.",
            {"values that are no numbers": Evidence(count, 0.0)},
            known.chosen(bad)[:MOST_NAMED],
            sureness=1.0,
        )


def bad_loss_sign(
    message: str,
    origin: TracedOrigin | None,
    evidence: dict[str, Evidence],
    step: int,
    effect: str = TAKEN_UP,
) -> Sign:
    """Return the sign for a loss that may have been trained on."""
    reasons = (
        "Look at the layer and the batch of this step. Usual reasons: a learning rate that is too high; "
        f"log(0), x / 0 or sqrt(0) in the loss, cured by log(x + 1e-8) or {Idiom.CLAMP}; NaN in the data. "
        f"Clip the gradients: {Idiom.CLIP}."
    )
    is_of_data = origin is not None and origin.what == "loss" and origin.tensor
    return Sign(
        Severity.ERROR,
        message + effect,
        f"{CLEAN if is_of_data else reasons}{'' if origin is None else origin.opening()}",
        evidence,
        since=step,
        sureness=1.0,
    )


def left_out_sign(
    message: str, origin: TracedOrigin | None, step: int, evidence: dict[str, Evidence] | None = None
) -> Sign:
    """Return the sign for a loss that no backward pass followed."""
    return Sign(
        Severity.WARNING,
        f"{message}{LEFT_OUT}",
        "Look at the layer and the batch of this step. The training goes on without this batch, but learns "
        "nothing from it. Usual reasons: NaN in the data; log(0), x / 0 or sqrt(0), cured by log(x + 1e-8) "
        f"or {Idiom.CLAMP}.{'' if origin is None else origin.opening()}",
        evidence or ({} if origin is None else origin.evidence()),
        since=step,
        sureness=0.95,
    )


def last_finite(history: History, name: str, step: int) -> float | None:
    curve = history.curve(name)
    if curve is None:
        return None
    for at, value in zip(reversed(curve.steps), reversed(curve.values), strict=True):
        if at < step and math.isfinite(value):
            return value
    return None


def of_gradient(origin: TracedOrigin | None, step: int) -> str:
    """Return where bad gradients came from, as a sentence."""
    averaged = of_averaged(origin, step)
    if averaged or origin is None or origin.what != "gradient" or origin.step != step:
        return averaged
    if origin.operation:
        return f" They appeared on the way back{origin.operation_text(' in')}, which was given finite ones."
    advice = "" if origin.follows else ' (check_numerics="ops" names the operation)'
    return f" On the way back from the loss, {origin.layer} is the first with such gradients{advice}."


def of_averaged(origin: TracedOrigin | None, step: int) -> str:
    """Return where bad gradients came from in a run of several processes, as a sentence."""
    if origin is None or origin.step != step:
        return ""
    if origin.is_of_another and origin.what != "gradient":
        return f" They came from rank {origin.rank}, whose gradients are averaged with those of this process."
    return f" Where they came from is not known: {origin.why_not}." if origin.why_not else ""


def of_loss(origin: TracedOrigin) -> str:
    """Return where a bad loss came from, as a sentence."""
    if origin.what == "loss":
        # Only torch runs a batch again, and only there is a line of backward known.
        again = " when run again" if origin.backward and origin.repeats is None else ""
        made = origin.operand_text() or origin.made_by_loss_text()
        return f" The models put out finite values{origin.on_rank}{again}: {made}{origin.line_text()}."
    if origin.what == "parameter":
        return f" It came from {origin.weight}, which held {origin.made_of} before the forward pass."
    if origin.what == "input":
        return f" {origin.batch_text()}."
    if origin.where and origin.what:
        rank = "" if origin.what == "gradient" else origin.on_rank  # gradients are averaged over ranks
        return f" It came from the {origin.what} of {named(origin.where)}{rank}{origin.operation_text()}."
    if origin.repeats is False:
        return origin.repeats_text()
    return f" Where it came from is not known: {origin.why_not}." if origin.why_not else ""


def writers(history: History, origin: TracedOrigin) -> str:
    """Return who may have written such a weight before the step, as a sentence."""
    step = origin.step
    if origin.divided_by_zero:
        return (
            f"The optimizer's own update of step {step - 1} wrote it: {origin.divided_by_zero} has eps=0, so "
            "it divided by 0 where all gradients had been 0."
        )
    rate = bad_rate(history, step - 1)
    if rate is not None:
        return f"The update of step {step - 1} wrote it: its learning rate was {text(rate)}."
    if origin.was_updated:
        advice = "" if origin.follows else '; check_numerics="ops" names the operation that makes such'
        return (
            f"The update of step {step - 1} wrote it, from a gradient that was not finite: the optimizer's "
            f"state is not finite either{advice}."
        )
    curve = history.curve(NONFINITE_GRADIENTS)
    before = {} if curve is None else dict(zip(curve.steps, curve.values, strict=True))
    if before.get(step - 1) == 0.0:
        return (
            f"The gradients of step {step - 1} were finite, so code between the steps wrote it, or an "
            "update that was too large for its type."
        )
    return f"The update of step {step - 1} wrote it, or code between the steps."


def cure_of(history: History, origin: TracedOrigin) -> str:
    """Return what to do about what wrote the weight, as a sentence."""
    if origin.divided_by_zero:
        return f"Give {origin.divided_by_zero} an eps above 0, such as its default."
    if bad_rate(history, origin.step - 1) is not None:
        return "Look at what sets the learning rate: a scheduler, or code that divides by a count of 0."
    return (
        "Look for code of your own that writes weights between steps (copy_, a checkpoint), and at the "
        "update of the step before: a learning rate that is too high, a gradient that is not finite."
    )


def bad_rate(history: History, step: int) -> float | None:
    """Return a learning rate of this step that was NaN or infinite; None if all were numbers."""
    for curve in history.curves(RATES):
        for at, rate in zip(curve.steps, curve.values, strict=True):
            if at == step and not math.isfinite(rate):
                return rate
    return None


def text(value: float) -> str:
    return "NaN (not a number)" if math.isnan(value) else number(value, 4)


RULES: tuple[type[Rule], ...] = (
    NonfiniteLoss,
    NonfiniteGradient,
    NonfiniteWeight,
    NonfiniteActivation,
    NonfiniteInput,
    PrecisionHeadroom,
    LossScaleOverflow,
)
