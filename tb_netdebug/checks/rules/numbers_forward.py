"""Values that are no numbers in the forward pass: in the batch, and in what layers put out."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...records.step import Kind, Sample, StepRecord
from ...stats.packed import HEADER
from ..finding import Evidence, Severity, Sign
from ..history import History
from ..phrases import agree, counted, named
from ..rule import Rule, When
from .loss_curves import is_loss

MOST_NAMED = 50
WORDS = {"NaN": "NaN (no number)", "Inf": "infinite values"}
CLEAN = (
    "Clean the data before training: find such rows with torch.isnan(x).any(1), then drop or fill them "
    "(torch.nan_to_num). Often it is a missing value in a table, or a feature divided by a spread of 0."
)


class NonfiniteActivation(Rule):
    """A layer puts out NaN or infinity; minus infinity alone masks scores on purpose."""

    slug = "nonfinite-activation"
    when = When.FACTS
    needs = ("activations",)

    def __init__(self) -> None:
        self._judged = -1
        self._is_lost = False  # after such gradients, outputs only show what has become of the weights

    def update(self, history: History) -> Iterator[Sign]:
        for fact in history.facts.get("first-nonfinite", []):
            is_origin = fact.get("what") == "output" and fact.get("parameters_finite", True)
            if is_origin and not fact.get("masked_only"):
                yield self._told(fact, history.step)
        if not self._is_lost and were_others(history, Kind.ACTIVATION):
            for record in history.recent:
                if record.step > self._judged and not self._is_lost:
                    yield from self._seen(history, record)
                    self._is_lost = is_lost(record)
        self._is_lost = self._is_lost or any(map(is_lost, history.recent))
        self._judged = history.step

    def _told(self, fact: dict[str, object], step: int) -> Sign:
        where, kind = str(fact.get("where")), str(fact.get("kind", "NaN"))
        shown, what = named(where), WORDS.get(kind, kind)
        layer = f"{shown} ({fact['class_name']})" if fact.get("class_name") else shown
        if fact.get("inputs_finite", True):
            why = "its inputs and weights were all numbers, so they arise in this layer"
        else:
            why = "its inputs hold such values already"
        return self._sign(
            f"The first layer with {what} at step {step} is {layer}: {why}.", kind, (where,), step
        )

    def _seen(self, history: History, record: StepRecord) -> Iterator[Sign]:
        bad = [sample.series.name for sample in nonfinite(record, Kind.ACTIVATION) if not is_mask(sample)]
        if bad and not were_weights_lost(history, record.step):
            ordered = history.layers.in_order(bad)
            text = (
                f"{counted(len(bad), 'layer puts', 'layers put')} out NaN (no number) or infinity, the first "
                f"of them {named(ordered[0])}."
            )
            yield self._sign(text, "NaN or Inf", tuple(ordered[:MOST_NAMED]), record.step)

    def _sign(self, message: str, kind: str, where: tuple[str, ...], step: int) -> Sign:
        return Sign(
            Severity.ERROR,
            message,
            f"Look at what this layer does to its inputs: a division by zero, the log or root of a negative "
            f"number, exp of a big one, values beyond 65504 in float16. Print them with "
            f'monitor.tensor("inputs", x) in front of {named(where[0])}, or clamp them.',
            {"value": Evidence(kind)},
            where,
            since=step,
            sureness=0.97,
        )


class NonfiniteInput(Rule):
    """The batch itself holds NaN or infinity."""

    slug = "nonfinite-input"
    when = When.FACTS
    needs = ("inputs",)

    def __init__(self) -> None:
        self._judged = -1

    def update(self, history: History) -> Iterator[Sign]:
        for fact in history.facts.get("first-nonfinite", []):
            if fact.get("what") == "input" and not fact.get("masked_only"):
                yield self._told(fact, history.step)
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
        is_borne = bool(loss) and all(map(math.isfinite, loss))
        effect = (
            "the loss is a number all the same, so the model seems to expect them"
            if is_borne
            else ("one is enough to make the loss NaN")
        )
        return Sign(
            Severity.INFO if is_borne else Severity.ERROR,
            f"{bad} of {count} values of the {what} {agree(bad, 'is', 'are')} "
            f"{'NaN (no number)' if nan else 'infinite'}: {effect}.",
            CLEAN,
            {"values that are no numbers": Evidence(float(bad), 0.0)},
            (name,),
            since=record.step,
            sureness=0.5 if is_borne else 1.0,
        )

    def _told(self, fact: dict[str, object], step: int) -> Sign:
        where, kind = str(fact.get("where")), str(fact.get("kind", "NaN"))
        return Sign(
            Severity.ERROR,
            f"The batch of step {step} holds {WORDS.get(kind, kind)} already when it gets to {named(where)}: "
            "one such value is enough to make the loss NaN.",
            CLEAN,
            {"value": Evidence(kind)},
            (where,),
            since=step,
        )


def losses(record: StepRecord) -> Iterator[tuple[str, float]]:
    """The loss; where none was given, those that were logged or seen by a probe."""
    scalars = record.scalars
    if "loss" in scalars:
        yield "loss", scalars["loss"]
        return
    for name, value in scalars.items():
        if is_loss(name):
            yield name, value


def were_others(history: History, kind: Kind) -> bool:
    """Whether there was a value that is no number in the steps that are asked about; told cheaply."""
    seen = history.of_kind(kind)
    looks = sum(step >= history.recent[0].step for step in seen.steps) if history.recent else 0
    return looks > 0 and bool((seen.past("nonfinite", looks) > 0).any())


def is_lost(record: StepRecord) -> bool:
    """Whether NaN came into the weights, as far as scalars tell: gradients are not counted in every step."""
    scalars = record.scalars
    is_bad = scalars.get("nonfinite_gradients", 0.0) > 0 or not math.isfinite(scalars.get("loss", 0.0))
    return is_bad and not scalars.get("probe/loss_scale_skipped")


def were_weights_lost(history: History, step: int) -> bool:
    """Before this step."""
    seen = history.weights
    return any(
        at < step and bool((row > 0).any())
        for at, row in zip(seen.steps, seen.past("nonfinite"), strict=True)
    )


def nonfinite(record: StepRecord, kind: Kind) -> list[Sample]:
    return [each for each in record.samples if each.series.kind is kind and holds_others(each.summary)]


def holds_others(summary: bytes) -> bool:
    """Whether there are values that are no numbers: three counts behind the first, zero in general."""
    return summary[8:32] != NONE


NONE = bytes(24)


def is_mask(sample: Sample) -> bool:
    """Minus infinity among numbers, as is written into scores that a softmax shall leave out."""
    count, nan, plus, minus = HEADER.unpack_from(sample.summary)[:4]
    return bool(minus and not nan and not plus and minus < count)
