"""Finds the loss among the recorded scalars."""

from __future__ import annotations

from tb_netdebug.checks.curve import Curve
from tb_netdebug.checks.history import History
from tb_netdebug.core.records.facts import LossCallFact
from tb_netdebug.core.records.scalar_names import EVALUATION_LOSS, LOSS, LOSSES, OWN, of_loss


def loss_of(history: History) -> Curve | None:
    """Return the loss given to `monitor.step`, or else the first that a user logged or a probe has seen."""
    given = history.curve(LOSS)
    if given is not None:
        return given
    for curve in history.curves():
        if is_loss(curve.name):
            return curve
    return None


def main_curves(history: History) -> tuple[Curve | None, Curve | None]:
    """Return the loss, and the baseline of the one call that it consists of.

    The weights of several calls are not known, so then there is no baseline.
    """
    calls = history.known_facts(LossCallFact)
    if len(calls) == 1:
        number = next(iter(calls))
        value = history.curve(of_loss(number, "value"))
        if value is not None:
            return value, history.curve(of_loss(number, "baseline"))
    return history.curve(LOSS), None


def is_loss(name: str) -> bool:
    """Return whether the name is that of a training loss, logged by the user or seen by a probe."""
    if name.startswith(LOSSES):
        return name.endswith("/value")
    is_logged = name.startswith(OWN) and "loss" in name.lower()
    return is_logged and name != EVALUATION_LOSS
