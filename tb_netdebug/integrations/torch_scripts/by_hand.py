"""Finds training runs without an optimizer of torch, and the ends of their steps."""

from __future__ import annotations

import atexit
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch import nn

from tb_netdebug.integrations.torch_scripts.beginnings import Beginnings
from tb_netdebug.integrations.torch_scripts.followed import FollowedTraining
from tb_netdebug.integrations.torch_scripts.hand_updates import HandSteps, HandUpdates
from tb_netdebug.integrations.torch_scripts.owners import parameter_ids

TELLING = "If that was training, nd.watch and monitor.step record it. Nothing was recorded."


class ByHand:
    """Follows backward passes and calls of modules; `trainings.TorchDiscovery` reports them.

    `take_loss` returns what was differentiated since the last step, and forgets it.

    A step ends with the first call of the model after its weights have changed, so that the values of that
    call belong to the next step; if nothing is called, with the next backward pass.
    """

    def __init__(self, beginnings: Beginnings, take_loss: Callable[[], Any]) -> None:
        self._beginnings = beginnings
        self._take_loss = take_loss
        self._updates = HandUpdates()
        self._trainings: list[tuple[FollowedTraining, HandSteps]] = []
        self._known: set[int] = set()
        self._inputs_changed = False
        self.gradients_taken = 0

    @property
    def wants_calls(self) -> bool:
        """Whether calls of modules are worth examining."""
        return bool(self._trainings) or self._updates.is_looking()

    def before(self, roots: Any) -> None:
        """Take note that a backward pass begins."""
        if not self._is_active():
            self._updates.forget()
            return
        self._end_steps()
        self._look(is_last_look=True)
        self._updates.before(roots, known=self._known)

    def after(self) -> None:
        """Take note that a backward pass has ended."""
        if self._is_active():
            self._updates.after()
            for followed, steps in self._trainings:
                if steps.after():
                    followed.differentiated()

    def called(self, module: nn.Module) -> None:
        """End a step if this model has changed since its last backward pass."""
        if not self._is_active():
            return
        for followed, steps in self._trainings:
            if id(module) in steps.roots and steps.is_over():
                followed.updated_by_hand(self._take_loss())
        self._look(is_last_look=False)

    def grown(self) -> None:
        """Take note that a new model is being built, and examine graphs again."""
        self._updates.passes_since = 0

    def finish(self) -> None:
        """End the last step, which no further call or pass would end."""
        if self._is_active():
            self._end_steps()

    def unrecorded(self) -> str:
        """Return what was seen of a program of which nothing was recorded; empty when there was nothing."""
        if self._inputs_changed:
            return (
                "tensors were changed along their gradients, but they are inputs of a network, not "
                f"parameters (as for adversarial examples). {TELLING}"
            )
        if self._updates.has_seen_changes:
            return (
                "parameters changed after backward() without a torch.optim optimizer, but for too few "
                f"steps or not along their gradients. {TELLING}"
            )
        if self.gradients_taken:
            return (
                "gradients were computed with torch.autograd.grad, and NetDebug cannot see what was done "
                f"with them. {TELLING}"
            )
        if self._updates.passes:
            return (
                "nothing was trained: backward() was called, and no parameter changed after it. Nothing was "
                "recorded."
            )
        return ""

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_active(self) -> bool:
        return not self._beginnings.has_optimizers and not keras_trains()

    def _end_steps(self) -> None:
        for followed, steps in self._trainings:
            if steps.is_over():
                followed.updated_by_hand(self._take_loss())

    def _look(self, *, is_last_look: bool) -> None:
        tensors = self._updates.updated(is_last_look=is_last_look)
        if not tensors:
            return
        # Examined once, whatever comes of it.
        self._known |= {id(each) for each in tensors}
        begun = self._beginnings.begin_by_hand(tensors)
        if begun is None:
            self._inputs_changed = True
            return
        followed, models = begun
        self._take_loss()
        self._known |= {number for model in models for number in parameter_ids(model)}
        steps = HandSteps(tensors, map(id, models), passes=self._updates.passes_of_step)
        self._trainings.append((followed, steps))
        if len(self._trainings) == 1:
            finish_at_exit(self)


def finish_at_exit(by_hand: ByHand) -> None:
    """Register `finish` to run before the exit handler that closes the run: last registered, first run."""
    reference = weakref.ref(by_hand)

    def finish() -> None:
        still = reference()
        if still is not None:
            with suppress(Exception):  # the program is exiting: nobody would see it
                still.finish()

    atexit.register(finish)


def keras_trains() -> bool:
    """Return whether Keras runs on torch.

    It updates weights without an optimizer of torch, and has a discovery of its own.
    """
    keras = sys.modules.get("keras")
    backend = getattr(keras, "backend", None)
    return backend is not None and backend.backend() == "torch"
