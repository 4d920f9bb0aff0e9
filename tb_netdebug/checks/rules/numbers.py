"""Values that are no numbers: where they came up, and when. Thresholds: none, one such value is enough."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ...records.step import Kind, StepRecord
from ..finding import Evidence, Severity, Sign
from ..history import History
from ..phrases import agree, counted, named, number, percent
from ..rule import Rule, When
from .numbers_forward import MOST_NAMED, NonfiniteActivation, NonfiniteInput, losses, nonfinite
from .numbers_precision import LossScaleOverflow, PrecisionHeadroom
from .parameters import parameters_of


class NonfiniteLoss(Rule):
    """The loss is NaN or infinite."""

    slug = "nonfinite-loss"
    when = When.STEPS
    needs = ("loss",)

    def update(self, history: History) -> Iterator[Sign]:
        for record in history.recent:
            for name, value in losses(record):
                if not math.isfinite(value):
                    yield self._sign(history, record, name, value)
                    break

    def _sign(self, history: History, record: StepRecord, name: str, value: float) -> Sign:
        last = last_finite(history, name, record.step)
        before = "" if last is None else f"; the last one that was a number was {number(last, 4)}"
        origin = first_nonfinite(history)
        place = f" It came from {origin}." if origin else ""
        if record.scalars.get("probe/loss_scale_skipped"):
            return Sign(
                Severity.INFO,
                f"The loss of step {record.step} was {text(value)}{before}, and the gradient scaler left "
                f"this step out.{place}",
                "Nothing, as long as it is rare: mixed precision now and then goes beyond what 16 bits hold.",
                {"loss": Evidence(value)},
                since=record.step,
                sureness=0.5,
            )
        return Sign(
            Severity.ERROR,
            f"The loss is {text(value)} at step {record.step}{before}.{place} From here on the weights take "
            "up values that are no numbers.",
            "Look at the layer and the batch of this step. Usual reasons: a learning rate that is too high; "
            "log(0), x / 0 or sqrt(0) in the loss, cured by log(x + 1e-8) or .clamp(min=1e-8); NaN in the "
            "data. Clip the gradients: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).",
            {"loss": Evidence(value)},
            since=record.step,
            sureness=1.0,
        )


class NonfiniteGradient(Rule):
    """A gradient holds NaN or infinity, and no gradient scaler has left the step out."""

    slug = "nonfinite-gradient"
    when = When.STEPS
    needs = ("gradient-norm",)

    def update(self, history: History) -> Iterator[Sign]:
        for record in history.recent:
            count = record.scalars.get("nonfinite_gradients", 0.0)
            if count > 0 and not record.scalars.get("probe/loss_scale_skipped"):
                yield self._sign(record, count)

    def _sign(self, record: StepRecord, count: float) -> Sign:
        places = tuple(sample.series.name for sample in nonfinite(record, Kind.GRADIENT))[:MOST_NAMED]
        loss = record.scalars.get("loss", math.nan)
        but = " although the loss is a number" if math.isfinite(loss) else ""
        return Sign(
            Severity.ERROR,
            f"{counted(count, 'value')} of the gradients {agree(count, 'is', 'are')} NaN (no number) or "
            f"infinite{but}. The optimizer writes them into the weights, and the network is lost.",
            "Look at the operations behind the layers named here: sqrt, norm, log, division and x ** y "
            "have no slope at 0; add 1e-8 below the root or in the denominator. If the loss grew before, "
            "lower the learning rate or clip: torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, "
            "error_if_nonfinite=True).",
            {"values that are no numbers": Evidence(count, 0.0)},
            places,
            since=record.step,
            sureness=0.98,
        )


class NonfiniteWeight(Rule):
    """A weight holds NaN or infinity; a frozen mask of infinities is meant so."""

    slug = "nonfinite-weight"
    when = When.SAMPLES
    needs = ("weights",)

    def update(self, history: History) -> Sign | None:
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
            f"{agree(count, 'is', 'are')} NaN (no number) or infinite; 0 should be. Every "
            "output that they touch is NaN as well: the network cannot recover.",
            "Go back to the last checkpoint from before this step, and cure what came first: see the first "
            "finding, or lower the learning rate and clip the gradients.",
            {"values that are no numbers": Evidence(count, 0.0)},
            known.chosen(bad)[:MOST_NAMED],
            sureness=1.0,
        )


def last_finite(history: History, name: str, step: int) -> float | None:
    curve = history.curve(name)
    if curve is None:
        return None
    for at, value in zip(reversed(curve.steps), reversed(curve.values), strict=True):
        if at < step and math.isfinite(value):
            return value
    return None


def first_nonfinite(history: History) -> str:
    """The place that a probe has named."""
    fact = history.fact("first-nonfinite")
    if fact is None or fact.get("masked_only"):
        return ""
    where, what = fact.get("where"), fact.get("what")
    return f"the {what} of {named(where)}" if where and what else ""


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
