"""Counts batches whose non-finite loss is differentiated, but on whose gradients the program does not step.

Nothing is looked at until a backward pass begins at such a loss. The batch is known to be left out if no
optimizer steps before its gradients are cleared, or before the end of the step.
"""

from __future__ import annotations

from tb_netdebug.core.records.scalar_names import GRADIENTS_LEFT_OUT, LOSS_SCALE_SKIPPED
from tb_netdebug.frameworks.torch.losses.clipping import when_clipped
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.frameworks.torch.reader import SKIPPED
from tb_netdebug.frameworks.torch.taps import Handle


class RuinedBatch:
    """The batch of a non-finite loss, from its backward pass until it is known what became of it."""

    def __init__(self, context: ProbeContext) -> None:
        self._context = context
        self._steps = 0  # of the optimizers, when the backward pass began
        self._clipping: Handle | None = None  # while a batch waits
        self._is_counted_elsewhere = False
        self.is_waiting = False

    def begin(self) -> None:
        """Wait for what becomes of a batch, as a backward pass begins at its loss."""
        optimizers = self._context.optimizers
        # A loop without optimizers updates the weights itself, and a closure belongs to the step around it.
        if self.is_waiting or not optimizers.known() or optimizers.is_stepping:
            return
        self._steps = optimizers.steps
        self._is_counted_elsewhere = False
        self._clipping = when_clipped(self._clipped)
        self.is_waiting = True

    def look(self, *, is_end: bool = False) -> None:
        """Count the batch if it was left out; called before a backward pass and at the end of the step."""
        is_used = self._context.optimizers.steps != self._steps
        if is_used or is_end or not self._has_bad_gradients():
            if not (is_used or self._is_counted_elsewhere or self._is_skipped_by_scaler):
                self._context.collector.add(GRADIENTS_LEFT_OUT, 1.0)
            self.close()

    def close(self) -> None:
        """Wait no more. Harmless when called again."""
        self.is_waiting = False
        if self._clipping is not None:
            self._clipping.close()
            self._clipping = None

    def _clipped(self) -> None:
        self._is_counted_elsewhere = True  # by `losses.clipping`

    @property
    def _is_skipped_by_scaler(self) -> bool:
        return bool(self._context.collector.scalars.get(LOSS_SCALE_SKIPPED))

    def _has_bad_gradients(self) -> bool:
        """Return whether the gradients are still there: other batches may be added to them."""
        watched = self._context.parameters.current().values()
        gradients = [each.tensor.grad for each in watched if each.tensor.grad is not None]
        squares = self._context.reader.squares(gradients, SKIPPED) if gradients else None
        return squares is not None and bool(squares[1])
