"""A loss that is climbed, on made-up trainings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules.loss import RULES
from tests.support.stories import judged, record


def said(loss_at: Callable[[float], float], descended: Callable[[float], float]) -> Finding | None:
    """Of 64 steps; what is descended is measured in half of them."""
    losses = [loss_at(step) for step in range(64)]
    records = [
        record(step, {"loss": loss} | ({"probe/descended": descended(loss)} if step % 2 else {}))
        for step, loss in enumerate(losses)
    ]
    found = judged(RULES, records).get("loss-negative")
    return found if found is not None and found.severity > Severity.INFO else None


def climbing(step: float) -> float:
    return 1.0 + step / 20 + 0.1 * float(np.sin(7 * step))


def test_minus_the_loss_is_descended() -> None:
    found = said(climbing, lambda loss: -3 * loss)
    assert found is not None
    assert (Severity.WARNING, 0) == (found.severity, found.first_step)
    assert "minus" in found.message


@pytest.mark.parametrize(
    ("loss_at", "descended"),
    [
        (climbing, lambda loss: 2 * loss),
        (climbing, lambda loss: 1.0 - loss),
        (lambda step: 5 - climbing(step), lambda loss: -loss),
        (lambda step: climbing(step) - 9, lambda loss: -loss),
        (lambda step: 1.0 + 0.1 * np.sin(7 * step), lambda loss: -loss),
    ],
    ids=["a multiple", "another loss", "falls", "is earned", "stays"],
)
def test_other_losses_are_left_alone(
    loss_at: Callable[[float], float], descended: Callable[[float], float]
) -> None:
    assert said(loss_at, descended) is None
