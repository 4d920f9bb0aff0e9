"""Rules over non-finite values in the forward pass: in the batch, and in the outputs of layers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tb_netdebug.checks.evidence.loss_curves import is_loss
from tb_netdebug.checks.evidence.numbers_left_out import has_left_out, has_stepped_on_nonfinite, was_left_out
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.idioms import Idiom
from tb_netdebug.checks.wording.nonfinite_origin import LEFT_OUT, TracedOrigin
from tb_netdebug.checks.wording.phrases import agree, counted, named
from tb_netdebug.core.records.facts import NonfiniteFact
from tb_netdebug.core.records.scalar_names import (
    BATCH_LEFT_OUT,
    LOSS,
    LOSS_LEFT_OUT,
    LOSS_SCALE_SKIPPED,
)
from tb_netdebug.core.records.step import Kind, Sample, StepRecord
from tb_netdebug.core.stats.packed import HEADER

MOST_NAMED = 50
SKIPPED = " The gradient scaler skipped this step: it did not reach the weights."
NOT_STEPPED = " The program did not step on its gradients: this batch did not reach the weights."
CLEAN = (
    f"Clean the data before training: find such rows with {Idiom.FIND_NAN_ROWS}, then drop or fill them "
    f"({Idiom.FILL_NAN}). Often it is a missing value in a table, or a feature divided by a spread of 0."
)


class NonfiniteActivation(Rule):
    """A layer puts out NaN or infinity; minus infinity alone masks scores on purpose."""

    slug = "nonfinite-activation"
    when = When.FACTS
    needs = ("activations",)

    def __init__(self) -> None:
        self._judged = -1
        self._is_lost = False  # after bad gradients, outputs only show what has become of the weights
        self._is_traced = False  # then more is known than samples show

    def update(self, history: History) -> Iterator[Sign]:
        for fact in history.facts(NonfiniteFact):
            origin = TracedOrigin.of(fact, history.step)
            if origin.is_made_in_a_layer:
                yield self._traced(history, origin)
                self._is_traced = True
            self._is_lost = self._is_lost or (origin.what == "parameter" and not origin.masked_only)
        if not self._is_lost and not self._is_traced and were_others(history, Kind.ACTIVATION):
            for record in history.recent:
                if record.step > self._judged and not self._is_lost:
                    yield from self._seen(history, record)
                    self._is_lost = is_lost(record)
        self._is_lost = self._is_lost or any(map(is_lost, history.recent))
        self._judged = history.step

    def _traced(self, history: History, origin: TracedOrigin) -> Sign:
        severity, fate = fate_of(history, origin)
        if origin.repeats is False or not origin.inputs_finite:
            place = origin.layer if origin.where else "the model, outside of its layers"
            seen = (
                f"The first layer seen with {origin.made_of} at step {origin.step}{origin.on_rank} is {place}"
            )
            message = f"{seen}{origin.operation_text(', in')}{origin.given_text()}."
        else:
            when = f"at step {origin.step}{origin.on_rank}"
            made = f"{origin.layer} made {origin.made_of} {when}{origin.operation_text()}"
            before = f"; it was there before {origin.before}" if origin.before else ""
            weights = " and weights" if origin.parameters_known else "; its weights were not checked before"
            message = f"{made}, from finite inputs{weights}{before}."
        where = (origin.where,) if origin.where else ()
        return self._sign(
            message + origin.repeats_text() + fate,
            origin.evidence(),
            where,
            origin.step,
            opening=origin.opening(),
            sureness=0.97 if origin.repeats is not False else 0.7,
            knows_more=not self._is_traced,
            severity=severity,
        )

    def _seen(self, history: History, record: StepRecord) -> Iterator[Sign]:
        bad = [sample.series.name for sample in nonfinite(record, Kind.ACTIVATION) if not is_mask(sample)]
        if bad and not were_weights_lost(history, record.step):
            ordered = history.layers.in_order(bad)
            text = (
                f"{counted(len(bad), 'layer puts', 'layers put')} out NaN or infinity, starting with "
                f"{named(ordered[0])}."
            )
            evidence = {"value": Evidence("NaN or Inf")}
            where = tuple(ordered[:MOST_NAMED])
            fate = fate_text(record)
            yield self._sign(text + fate, evidence, where, record.step, severity=severity_of(record))

    def _sign(
        self,
        message: str,
        evidence: dict[str, Evidence],
        where: tuple[str, ...],
        step: int,
        *,
        opening: str = "",
        sureness: float = 0.97,
        knows_more: bool = False,
        severity: Severity = Severity.ERROR,
    ) -> Sign:
        before = f" in front of {named(where[0])}" if where else ""
        return Sign(
            severity,
            message,
            f"Look at what this layer does to its inputs: a division by zero, the log or root of a negative "
            f"number, exp of a big one, values beyond 65504 in float16. Print them with "
            f'monitor.tensor("inputs", x){before}, or clamp them.{opening}',
            evidence,
            where,
            since=step,
            sureness=sureness,
            knows_more=knows_more,
        )


class NonfiniteInput(Rule):
    """The batch itself holds NaN or infinity."""

    slug = "nonfinite-input"
    when = When.FACTS
    needs = ("inputs",)

    def __init__(self) -> None:
        self._judged = -1

    def update(self, history: History) -> Iterator[Sign]:
        for fact in history.facts(NonfiniteFact):
            origin = TracedOrigin.of(fact, history.step)
            if origin.what == "input" and not origin.masked_only:
                yield self._traced(history, origin)
        if were_others(history, Kind.TENSOR):
            for record in history.recent:
                if record.step > self._judged:
                    for sample in nonfinite(record, Kind.TENSOR):
                        name = sample.series.name
                        if name.startswith(("input/", "label/")) and not is_mask(sample):
                            yield self._sign(record, name, sample)
        self._judged = history.step

    def _sign(self, record: StepRecord, name: str, sample: Sample) -> Sign:
        count, nan, plus, minus = HEADER.unpack_from(sample.summary)[:4]
        bad = nan + plus + minus
        what = "labels" if name.startswith("label/") else "inputs"
        loss = [value for _, value in losses(record)]
        is_borne = bool(loss) and all(map(math.isfinite, loss)) and not is_kept_off(record)
        effect = (
            "the loss is finite all the same, so the model seems to expect them"
            if is_borne
            else "one is enough to make the loss NaN"
        )
        return Sign(
            Severity.INFO if is_borne else severity_of(record),
            f"{bad} of {count} values of the {what} {agree(bad, 'is', 'are')} "
            f"{'NaN' if nan else 'infinite'}: {effect}.{fate_text(record)}",
            CLEAN,
            {"values that are no numbers": Evidence(float(bad), 0.0)},
            (name,),
            since=record.step,
            sureness=0.5 if is_borne else 1.0,
        )

    def _traced(self, history: History, origin: TracedOrigin) -> Sign:
        severity, fate = fate_of(history, origin)
        return Sign(
            severity,
            f"{origin.batch_text()}: one such value is enough to make the loss NaN.{fate}",
            f"{CLEAN}{origin.opening()}",
            origin.evidence(),
            (origin.where,),
            since=origin.step,
        )


def losses(record: StepRecord) -> Iterator[tuple[str, float]]:
    """Yield the loss; if none was given, those that were logged or seen by a probe."""
    scalars = record.scalars
    if LOSS in scalars:
        yield LOSS, scalars[LOSS]
        return
    for name, value in scalars.items():
        if is_loss(name):
            yield name, value


def were_others(history: History, kind: Kind) -> bool:
    """Return whether any value was non-finite in the steps since the rules were last asked.

    It reads columns, which is cheaper than going through all samples.
    """
    seen = history.of_kind(kind)
    looks = sum(step >= history.recent[0].step for step in seen.steps) if history.recent else 0
    return looks > 0 and bool((seen.past("nonfinite", looks) > 0).any())


def is_lost(record: StepRecord) -> bool:
    """Return whether NaN came into the weights, as far as scalars show.

    Gradients are not counted in every step.
    """
    scalars = record.scalars
    is_bad = not math.isfinite(scalars.get(LOSS, 0.0))
    is_off = is_skipped(record) or scalars.get(LOSS_LEFT_OUT) or has_left_out(record)
    return has_stepped_on_nonfinite(record) or (is_bad and not is_off)


def is_skipped(record: StepRecord) -> bool:
    """Return whether a gradient scaler kept this step from the weights."""
    return bool(record.scalars.get(LOSS_SCALE_SKIPPED))


def fate_of(history: History, origin: TracedOrigin) -> tuple[Severity, str]:
    """Return the severity, and what became of the batch, as a sentence or nothing."""
    skipped = history.curve(LOSS_SCALE_SKIPPED)
    if skipped is not None and (origin.step, 1.0) in zip(skipped.steps, skipped.values, strict=True):
        return Severity.WARNING, SKIPPED
    if was_left_out(history, origin.step):
        return Severity.WARNING, NOT_STEPPED
    return origin.severity, origin.left_out_text()


def fate_text(record: StepRecord) -> str:
    """Return what became of the batch of this step, as a sentence or nothing."""
    if is_left_out(record):
        return LEFT_OUT
    if has_left_out(record):
        return NOT_STEPPED
    return SKIPPED if is_skipped(record) else ""


def is_kept_off(record: StepRecord) -> bool:
    """Return whether a batch of this step did not reach the weights because the program left it out."""
    return is_left_out(record) or has_left_out(record)


def is_left_out(record: StepRecord) -> bool:
    """Return whether the program itself left out a bad batch, so that it did not reach the weights."""
    return bool(record.scalars.get(LOSS_LEFT_OUT) or record.scalars.get(BATCH_LEFT_OUT))


def severity_of(record: StepRecord) -> Severity:
    """Return the severity of such values in this step."""
    return Severity.WARNING if is_kept_off(record) or is_skipped(record) else Severity.ERROR


def were_weights_lost(history: History, step: int) -> bool:
    """Return whether a weight was non-finite before this step."""
    seen = history.weights
    return any(
        at < step and bool((row > 0).any())
        for at, row in zip(seen.steps, seen.past("nonfinite"), strict=True)
    )


def nonfinite(record: StepRecord, kind: Kind) -> list[Sample]:
    return [each for each in record.samples if each.series.kind is kind and holds_others(each.summary)]


def holds_others(summary: bytes) -> bool:
    """Return whether a summary counts non-finite values: they are the three counts behind the first."""
    return summary[8:32] != NONE


NONE = bytes(24)


def is_mask(sample: Sample) -> bool:
    """Return whether it is a mask: minus infinity among numbers, which a softmax ignores."""
    count, nan, plus, minus = HEADER.unpack_from(sample.summary)[:4]
    return bool(minus and not nan and not plus and minus < count)
