"""The sign for batches with non-finite gradients on which the program itself did not step."""

from __future__ import annotations

from collections.abc import Container, Mapping

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import counted, percent
from tb_netdebug.core.records.scalar_names import (
    GRADIENT_NORM,
    GRADIENTS_LEFT_OUT,
    LOSS_SCALE_SKIPPED,
    NONFINITE_GRADIENTS,
    STEP_LEFT_OUT,
)
from tb_netdebug.core.records.step import StepRecord

# Limits as for a gradient scaler (`numbers_precision.LossScaleLimits`): below SHARE it is a note.
SHARE, SHARE_OF_ERROR = 0.25, 0.9
BATCHES, FEWEST = 32, 16


def left_out_gradients(history: History) -> Sign | None:
    """Return the sign if a batch was left out since the rules were last asked."""
    if not any(map(has_left_out, history.recent)):
        return None
    left_out = left_out_batches(history)
    unused = values_of(history, STEP_LEFT_OUT).keys() | unstepped(history)
    bad, good = newest(left_out, unused, history.step)
    batches = bad + good
    share = bad / batches
    return Sign(
        severity_of(share) if batches >= FEWEST else Severity.INFO,
        f"The program itself left out {percent(share)} of the last {counted(batches, 'batch', 'batches')} "
        f"({percent(SHARE)} or more is too much): their loss or gradients were NaN or infinite, and no "
        "optimizer step followed. Nothing was learned from them.",
        "Look at the operations behind these gradients: sqrt, norm, log, division and x ** y have no slope "
        "at 0; add 1e-8 below the root or in the denominator. Look at such batches for NaN and for very "
        "large values.",
        {"share of batches left out": Evidence(share, SHARE)},
        since=min(left_out),
        sureness=0.95,
    )


def left_out_batches(history: History) -> dict[int, float]:
    """Return the number of batches that were left out, by step."""
    return dict.fromkeys(unstepped(history), 1.0) | values_of(history, GRADIENTS_LEFT_OUT)


def unstepped(history: History) -> set[int]:
    """Return the steps with non-finite gradients in which no optimizer stepped, without those of a scaler.

    The gradient norm is recorded where an optimizer steps.
    """
    bad = {step for step, count in values_of(history, NONFINITE_GRADIENTS).items() if count > 0}
    if not bad:
        return bad
    skipped = {step for step, value in values_of(history, LOSS_SCALE_SKIPPED).items() if value}
    return bad - values_of(history, GRADIENT_NORM).keys() - skipped


def values_of(history: History, name: str) -> dict[int, float]:
    """Return the last values of a scalar by step."""
    curve = history.curve(name)
    return {} if curve is None else dict(zip(curve.steps, curve.values, strict=True))


def newest(left_out: Mapping[int, float], unused: Container[int], step: int) -> tuple[float, int]:
    """Return how many of the last batches were left out, and how many were not.

    A step counts with all its batches; the steps `unused` have none but those that were left out.
    """
    bad, good = 0.0, 0
    for each in range(step, -1, -1):
        if bad + good >= BATCHES:
            break
        bad += left_out.get(each, 0.0)
        good += each not in unused
    return bad, good


def severity_of(share: float) -> Severity:
    if share < SHARE:
        return Severity.INFO
    return Severity.WARNING if share < SHARE_OF_ERROR else Severity.ERROR


def was_left_out(history: History, step: int) -> bool:
    """Return whether a batch of this step was left out because of its gradients."""
    return step in left_out_batches(history)


def has_left_out(record: StepRecord) -> bool:
    """Return whether a batch of this step was left out because of its gradients."""
    scalars = record.scalars
    return bool(scalars.get(GRADIENTS_LEFT_OUT)) or (has_nonfinite(record) and GRADIENT_NORM not in scalars)


def has_stepped_on_nonfinite(record: StepRecord) -> bool:
    """Return whether an optimizer stepped on gradients that are not finite, as far as scalars show."""
    return has_nonfinite(record) and GRADIENT_NORM in record.scalars


def has_nonfinite(record: StepRecord) -> bool:
    """Return whether gradients were not finite and no gradient scaler skipped the step."""
    scalars = record.scalars
    return scalars.get(NONFINITE_GRADIENTS, 0.0) > 0 and not scalars.get(LOSS_SCALE_SKIPPED)
