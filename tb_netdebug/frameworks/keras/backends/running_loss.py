"""Recover the loss of a batch from the running mean of the epoch that Keras reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tb_netdebug.core.records.scalar_names import LOSS, name_of_own


@dataclass(slots=True, eq=False)
class Told:
    """The results of a step, possibly still being computed. Without a `size` the loss is used as is."""

    step: int
    values: dict[str, Any]
    size: float | None
    is_first: bool
    has_loss: bool


class RunningLoss:
    """Turns the running mean into the loss of each batch.

    The result is as exact as the mean's single precision allows: to one part in ten million for each batch of
    the epoch so far.
    """

    def __init__(self) -> None:
        self._seen = 0.0
        self._total = 0.0

    def numbers(self, told: Told) -> dict[str, float]:
        """Return the numbers of a step, and wait for values that have not arrived; call it in step order."""
        found = {name_of_own(name): float(np.mean(value)) for name, value in told.values.items()}
        loss = found.pop(name_of_own("loss"), None)
        if told.is_first:
            self._seen = self._total = 0.0
        if loss is None:
            return found
        if told.size:
            self._seen += told.size
            before, self._total = self._total, loss * self._seen
            loss = (self._total - before) / told.size
        if not told.has_loss:
            found[LOSS] = loss
        return found


def is_ready(value: Any) -> bool:
    """Return whether a value can be read without waiting."""
    ready = getattr(value, "is_ready", None)
    return True if ready is None else bool(ready())
