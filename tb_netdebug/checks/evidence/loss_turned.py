"""The sign for a loss that is climbed: the gradients are those of minus the reported loss."""

from __future__ import annotations

import math

import numpy as np

from tb_netdebug.checks.evidence.loss_calls import LEAST_COMPARED, SAME
from tb_netdebug.checks.evidence.loss_course import LossCurve, course
from tb_netdebug.checks.evidence.loss_shape import Doubles, is_falling
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.wording.phrases import number
from tb_netdebug.core.records.scalar_names import DESCENDED, LOSS


def climbed(history: History) -> Sign | None:
    pairs = pairs_in(history)
    if len(pairs) < LEAST_COMPARED:
        return None
    seen = course(history)
    losses, descended = (np.array(each) for each in zip(*pairs, strict=True))
    # A program that also flips the sign of the gradients has a falling loss, so it must have risen by more
    # than chance.
    has_risen = is_falling(-seen.values, share=math.inf)
    if seen.is_contest or not has_risen or not is_minus(losses, descended):
        return None
    return sign(seen, float(losses[-1]), float(descended[-1]))


def pairs_in(history: History) -> list[tuple[float, float]]:
    """Return pairs of the loss and the value that gradients were taken of, for the steps that measured it.

    It is measured where that value is not the loss itself.
    """
    descent, loss = history.curve(DESCENDED), history.curve(LOSS)
    if descent is None or loss is None:
        return []
    losses = dict(zip(loss.steps, loss.values, strict=True))
    known = zip(descent.steps, descent.values, strict=True)
    return [(losses[step], value) for step, value in known if step in losses]


def is_minus(losses: Doubles, descended: Doubles) -> bool:
    """Return whether one is the same negative multiple of the other in each step."""
    if not (losses > 0).all():
        return False  # a loss below zero may be a likelihood or a reward
    ratios = descended / losses
    return bool(ratios.max() < 0 and np.ptp(ratios) <= SAME * np.abs(ratios).max())


def sign(seen: LossCurve, loss: float, descended: float) -> Sign:
    return Sign(
        Severity.WARNING,
        f"The loss is {number(loss, 4)}, but gradients are taken of {number(descended, 4)} (they should be "
        "taken of the loss, not of minus the loss): each step makes it larger. It began at "
        f"{number(seen.start, 4)}.",
        "Remove the minus sign before the loss. If the value is to become high, as a reward is, do not "
        "call it loss. If the loss is raised on purpose (to make a network forget), this is no fault: "
        'checks={"loss-negative": False}.',
        {"loss": Evidence(loss), "what the gradients are taken of": Evidence(descended, 0.0)},
        since=seen.first_step,
        sureness=0.9,
    )
