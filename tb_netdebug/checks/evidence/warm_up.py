"""Whether the learning rate is still in its warm-up, during which many signs mean nothing."""

from __future__ import annotations

import math

from tb_netdebug.checks.history import History
from tb_netdebug.core.records.scalar_names import RATES

STEPS_BACK = 16


def is_rising(history: History) -> bool:
    """Return whether a learning rate is higher than some steps ago, as in a warm-up."""
    for curve in history.curves(RATES):
        rates = list(curve.values)[-STEPS_BACK:]
        if len(rates) > 1 and math.isfinite(rates[0]) and rates[-1] > rates[0]:
            return True
    return False


def still_warming_up(history: History) -> bool:
    """Return whether a learning rate has been rising until now, and is at its highest."""
    for curve in history.curves(RATES):
        values = list(curve.values)[-STEPS_BACK:]
        if len(values) > 1 and values[-1] > values[0] and values[-1] >= curve.highest:
            return True
    return False
