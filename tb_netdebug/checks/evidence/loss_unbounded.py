"""The sign for a loss that is divided by a value that can be 0, where it has no bound."""

from __future__ import annotations

from collections.abc import Iterator

from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.scalar_names import DIVISORS

PREFIX = DIVISORS


def unbounded(history: History, least: float) -> Iterator[Sign]:
    """Yield a sign if a divisor of the loss was on both sides of 0.

    The smaller side must be at least `least` of the larger one, or it is rounding.
    """
    for lows in history.curves(PREFIX):
        name = lows.name.removesuffix("/min")
        highs = history.curve(f"{name}/max")
        if highs is None or highs is lows or not lows.count or not highs.count:
            continue
        low, high = lows.lowest, highs.highest
        if low < 0 < high and min(-low, high) >= least * max(-low, high):
            yield divided(low, high)
            return


def divided(low: float, high: float) -> Sign:
    return Sign(
        Severity.WARNING,
        f"The loss is divided by a sum of the network's outputs, and this sum was {number(low)} and "
        f"{number(high)} (it must not be both below and above 0). Near 0 such a loss has no bound: it "
        "falls far below that of a right answer, and jumps.",
        "Apply `torch.sigmoid(scores)`, or softmax for several classes, before an overlap (Dice, Jaccard): "
        "it expects shares from 0 to 1. Otherwise divide by what is never 0, such as a sum of squares plus "
        "1e-6.",
        {"lowest divisor": Evidence(low, 0.0), "highest divisor": Evidence(high)},
        where=("loss",),
        sureness=0.9,
    )
