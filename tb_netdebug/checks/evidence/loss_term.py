"""The sign for a loss function that stays at guessing, in a loss that had a larger part at first."""

from __future__ import annotations

from collections.abc import Mapping

from tb_netdebug.checks.evidence.loss_course import LossCurve
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.wording.idioms import loss_function
from tb_netdebug.checks.wording.phrases import number, percent
from tb_netdebug.core.records.facts import LossCallFact


def outweighed(
    seen: LossCurve, calls: Mapping[int | str, LossCallFact], *, below: float, rest: float
) -> Sign | None:
    """Return the sign if the larger part of the loss was trained and the loss function in it was not.

    A loss function that is `below` guessing has learned something. What is left of the loss beside it must be
    at most `rest` of it: the larger part has become next to nothing, such as a divergence that is a sum
    beside an error that is a mean. What is left is the error, and it is no better than that of a constant
    answer.
    """
    known = seen.calls
    left, at_first = known.ratio - 1.0, known.first_ratio - 1.0
    if len(calls) != 1 or known.are_the_loss or not at_first > 1.0:
        return None
    if not abs(left) <= rest or not known.level >= 1.0 - below or known.least < 1.0 - 3.0 * below:
        return None
    call = next(iter(calls.values()))
    return Sign(
        Severity.WARNING,
        f"{loss_function(call.function)} is a part of the loss, and has never been clearly better "
        f"than the best constant answer: in the last samples it was {percent(known.level)} of what that "
        f"would get (less than {percent(1.0 - below)} would show that something was learned). At first the "
        f"rest of the loss was {number(at_first, 2)} times as large, and by now it is {percent(abs(left))} "
        "of it: the network lowers the rest alone.",
        "Compute both parts as sums, or both as means, over the same elements: in a VAE, sums over the "
        "values of a row and means over rows. Or give the part that was larger a small factor (try 0.001), "
        "and raise it step by step.",
        {
            "share of the error of a constant answer": Evidence(known.level, 1.0 - below),
            "rest of the loss beside it": Evidence(abs(left), rest),
            "rest of the loss beside it at first": Evidence(at_first),
        },
        where=(call.site,) if call.site else (),
        since=seen.first_step,
        sureness=0.8,
    )
