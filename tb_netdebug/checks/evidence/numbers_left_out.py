"""The sign for batches with non-finite gradients on which the program itself did not step."""

from __future__ import annotations

from collections.abc import Mapping

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import counted, percent
from tb_netdebug.core.records.scalar_names import GRADIENTS_LEFT_OUT

# Limits as for a gradient scaler (`numbers_precision.LossScaleLimits`): below SHARE it is a note.
SHARE, SHARE_OF_ERROR = 0.25, 0.9
BATCHES, FEWEST = 32, 16


def left_out_gradients(history: History) -> Sign | None:
    """Return the sign if a batch was left out since the rules were last asked."""
    curve = history.curve(GRADIENTS_LEFT_OUT)
    if curve is None or not history.recent or curve.steps[-1] < history.recent[0].step:
        return None
    bad, good = newest(dict(zip(curve.steps, curve.values, strict=True)), history.step)
    batches = bad + good
    share = bad / batches
    return Sign(
        severity_of(share) if batches >= FEWEST else Severity.INFO,
        f"The program itself left out {percent(share)} of the last {counted(batches, 'batch', 'batches')} "
        f"({percent(SHARE)} or more is too much): the norm of their gradients was NaN or infinite when "
        "they were clipped, and no optimizer step followed. Nothing was learned from them.",
        "Look at the operations behind these gradients: sqrt, norm, log, division and x ** y have no slope "
        "at 0; add 1e-8 below the root or in the denominator. Look at such batches for NaN and for very "
        "large values.",
        {"share of batches left out": Evidence(share, SHARE)},
        since=int(curve.steps[0]),
        sureness=0.95,
    )


def newest(left_out: Mapping[int, float], step: int) -> tuple[float, int]:
    """Return how many of the last batches were left out, and how many were not.

    A step counts with all its batches.
    """
    bad, good = 0.0, 0
    while bad + good < BATCHES and good <= step:
        bad += left_out.get(step - good, 0.0)
        good += 1
    return bad, good


def severity_of(share: float) -> Severity:
    if share < SHARE:
        return Severity.INFO
    return Severity.WARNING if share < SHARE_OF_ERROR else Severity.ERROR


def was_left_out(history: History, step: int) -> bool:
    """Return whether a batch of this step was left out because of its gradients."""
    curve = history.curve(GRADIENTS_LEFT_OUT)
    return curve is not None and step in curve.steps
