"""Detect a custom loop in which no optimizer steps: was it forgotten, or do the weights move anyway?"""

from __future__ import annotations

from typing import Any

import numpy as np

from tb_netdebug.core.records.facts import OptimizerFact
from tb_netdebug.frameworks.keras.layers import Network, native
from tb_netdebug.frameworks.keras.values import Array, array_of
from tb_netdebug.frameworks.keras.variables import moved, value_of

# A loop may accumulate gradients by hand over this many batches before it applies them.
BATCHES_ACCUMULATED = 64
MOST_WEIGHTS = 8


class IdleWeights:
    """Watches a few small weights after each step until an optimizer steps or one of the weights moves."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._start: list[tuple[Any, Array]] = []
        self._batches = 0
        self._told_batches = 0
        self.is_over = False

    def end_step(self) -> OptimizerFact | None:
        """Count a batch that went through the model under a tape, and return the fact when it is due.

        The fact is first due after BATCHES_ACCUMULATED batches, then each time their number has doubled.
        """
        if not self._start:
            self._start = smallest(self._network)
        if any(not np.array_equal(before, array_of(value_of(each))) for each, before in self._start):
            return self.end(0)
        self._batches += bool(self._start)
        if self._batches < max(BATCHES_ACCUMULATED, 2 * self._told_batches):
            return None
        self._told_batches = self._batches
        return self._tell(0)

    def end(self, steps: int) -> OptimizerFact | None:
        """Stop watching, and return the fact that withdraws an earlier one, if there was one.

        Called when an optimizer has stepped after all, or when weights have moved.
        """
        self.is_over = True
        self._start = []
        return self._tell(steps) if self._told_batches else None

    def _tell(self, steps: int) -> OptimizerFact:
        return OptimizerFact(
            id=OptimizerFact.NO_OPTIMIZER,
            steps=steps,
            batches=self._batches,
            moved=self.is_over and not steps,
            gradients=True,
            cleared=False,
        )


def smallest(network: Network) -> list[tuple[Any, Array]]:
    """Return the smallest weights that a step may change, with their current values."""
    variables = [native(each.variable) for each in moved(network)]
    variables.sort(key=lambda each: int(np.prod(each.shape)))
    return [(each, np.array(array_of(value_of(each)))) for each in variables[:MOST_WEIGHTS]]
