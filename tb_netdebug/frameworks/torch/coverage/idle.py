"""Detects a run in which no optimizer steps, and whether something else moves the weights."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from tb_netdebug.core.records.facts import OptimizerFact
from tb_netdebug.core.records.scalar_names import BATCH_SIZE, LOSS, NONFINITE_GRADIENTS
from tb_netdebug.frameworks.torch.coverage.members import Member, state_of

# After so many batches it is clear that nothing moves the weights: when gradients are cleared again and again
# unused; when there never are any; when they only accumulate, as the program may accumulate over batches.
BATCHES_CLEARED = 3
BATCHES_WITHOUT_GRADIENT = 16
BATCHES_ACCUMULATED = 64
MOST_PARAMETERS = 8


class IdleParameters:
    """Checks a few parameters at the end of each step, until an optimizer steps or one of them moves.

    Steps with non-finite gradients do not count: a gradient scaler may have skipped the optimizer.
    """

    def __init__(self) -> None:
        self._states: dict[int, Any] = {}
        self._batches = 0
        self._told_batches = 0
        self._gradient: weakref.ref[torch.Tensor] | None = None
        self._saw_gradient = False
        self._was_cleared = False
        self._arrival: Any = None
        self.is_over = False

    def end_step(self, members: Mapping[int, Member], scalars: Mapping[str, float]) -> OptimizerFact | None:
        """Return the fact when it is due, and again whenever the batches have doubled; else None."""
        watched = trainable_in(members)
        if not watched:
            return None
        if self._has_moved(watched):
            return self.end(0)
        gradient = next((each.grad for each in watched if each.grad is not None), None)
        self._note_gradient(gradient)
        # Do not count this batch: the scaler may skip the optimizer for it.
        if scalars.get(NONFINITE_GRADIENTS):
            return None
        if self._saw_gradient or (LOSS in scalars and BATCH_SIZE in scalars):
            self._batches += 1
        if self._batches == BATCHES_CLEARED:
            self._listen(watched[-1])
        if self._batches < max(self._fewest, 2 * self._told_batches):
            return None
        self._told_batches = self._batches
        return self._tell(0)

    def end(self, steps: int) -> OptimizerFact | None:
        """Stop checking: an optimizer has stepped, or weights were moved.

        Return a fact that withdraws what was recorded; None if nothing was.
        """
        self.is_over = True
        self.close()
        return self._tell(steps) if self._told_batches else None

    def close(self) -> None:
        if self._arrival is not None:
            self._arrival.remove()
            self._arrival = None

    @property
    def _fewest(self) -> int:
        if self._was_cleared:
            return BATCHES_CLEARED
        return BATCHES_ACCUMULATED if self._saw_gradient else BATCHES_WITHOUT_GRADIENT

    def _has_moved(self, watched: list[torch.nn.Parameter]) -> bool:
        """Return whether a parameter has moved.

        True also for one on a device: its values would have to be waited for, so nothing is reported.
        """
        for tensor in watched:
            state = state_of(tensor)
            if state is None or self._states.setdefault(id(tensor), state) != state:
                return True
        return False

    def _note_gradient(self, gradient: torch.Tensor | None) -> None:
        """Note whether gradients were cleared.

        Accumulated gradients stay in the same tensor; a new tensor means that the old one was cleared.
        """
        before = self._gradient() if self._gradient is not None else None
        if self._saw_gradient and (gradient is None or before is not gradient):
            self._was_cleared = True
        if gradient is not None:
            self._saw_gradient = True
            self._gradient = weakref.ref(gradient)

    def _listen(self, tensor: torch.nn.Parameter) -> None:
        """Watch for a gradient by a hook, because it may come and be cleared within a step."""
        if not self._saw_gradient and self._arrival is None:
            self._arrival = tensor.register_post_accumulate_grad_hook(self._arrive)

    def _arrive(self, tensor: torch.Tensor) -> None:
        self._saw_gradient = True

    def _tell(self, steps: int) -> OptimizerFact:
        return OptimizerFact(
            id=OptimizerFact.NO_OPTIMIZER,
            class_name="",
            groups=(),
            parameters=0,
            strangers=0,
            missing=(),
            missing_total=0,
            missing_with_gradient=0,
            alike=False,
            steps=steps,
            batches=self._batches,
            moved=self.is_over and not steps,
            gradients=self._saw_gradient,
            cleared=self._was_cleared,
        )


def trainable_in(members: Mapping[int, Member]) -> list[torch.nn.Parameter]:
    """Return the last few trainable parameters: they get gradients first, and are never frozen alone."""
    tensors = [
        member.tensor for member in members.values() if member.tensor.requires_grad and not member.is_hidden
    ]
    return tensors[-MOST_PARAMETERS:]
