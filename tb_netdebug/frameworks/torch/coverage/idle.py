"""A training in which no optimizer steps: is it left out, or are the weights moved by something else?"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch

from tb_netdebug.core.records.scalar_names import BATCH_SIZE, LOSS, NONFINITE_GRADIENTS
from tb_netdebug.frameworks.torch.coverage.members import Member, state_of

# So many batches tell that nothing moves the weights: when gradients are cleared again and again without
# having been used; when there never are any; when they are only added up, for batches may be accumulated.
BATCHES_CLEARED = 3
BATCHES_WITHOUT_GRADIENT = 16
BATCHES_ACCUMULATED = 64
MOST_PARAMETERS = 8


class IdleParameters:
    """Looks at a few parameters at the end of each step, until an optimizer steps or one of them moves.

    Steps with gradients that are not finite do not count: a gradient scaler may have skipped the optimizer.
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

    def end_step(self, members: Mapping[int, Member], scalars: Mapping[str, float]) -> dict[str, Any] | None:
        """The fact, when it is time to tell it; again after twice as many batches, and so on."""
        watched = trainable_in(members)
        if not watched:
            return None
        if self._has_moved(watched):
            return self.end(0)
        gradient = next((each.grad for each in watched if each.grad is not None), None)
        self._note_gradient(gradient)
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

    def end(self, steps: int) -> dict[str, Any] | None:
        """An optimizer has stepped after all, or weights were moved: what was said is taken back."""
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
        """True, too, for what lies on a device: nobody shall wait for it, so nothing is said."""
        for tensor in watched:
            state = state_of(tensor)
            if state is None or self._states.setdefault(id(tensor), state) != state:
                return True
        return False

    def _note_gradient(self, gradient: torch.Tensor | None) -> None:
        """Accumulated gradients stay in the same tensor; a new one means that the old was cleared."""
        before = self._gradient() if self._gradient is not None else None
        if self._saw_gradient and (gradient is None or before is not gradient):
            self._was_cleared = True
        if gradient is not None:
            self._saw_gradient = True
            self._gradient = weakref.ref(gradient)

    def _listen(self, tensor: torch.nn.Parameter) -> None:
        """Gradients may come and be cleared within a step."""
        if not self._saw_gradient and self._arrival is None:
            self._arrival = tensor.register_post_accumulate_grad_hook(self._arrive)

    def _arrive(self, tensor: torch.Tensor) -> None:
        self._saw_gradient = True

    def _tell(self, steps: int) -> dict[str, Any]:
        return {
            "id": "none",
            "class": "",
            "groups": [],
            "parameters": 0,
            "strangers": 0,
            "missing": [],
            "missing_total": 0,
            "missing_with_gradient": 0,
            "alike": False,
            "steps": steps,
            "batches": self._batches,
            "moved": self.is_over and not steps,
            "gradients": self._saw_gradient,
            "cleared": self._was_cleared,
        }


def trainable_in(members: Mapping[int, Member]) -> list[torch.nn.Parameter]:
    """The last ones: they are the first to get gradients, and never frozen alone."""
    tensors = [
        member.tensor for member in members.values() if member.tensor.requires_grad and not member.is_hidden
    ]
    return tensors[-MOST_PARAMETERS:]
