"""Collect the calls of a custom loop with GradientTape, where they run eagerly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tb_netdebug.frameworks.keras.datasets import Datasets
from tb_netdebug.frameworks.keras.layers import Network
from tb_netdebug.frameworks.keras.steps import TrainSteps
from tb_netdebug.frameworks.keras.tap import StepTap, is_without_tape
from tb_netdebug.frameworks.keras.tensors import dense, tensors_in
from tb_netdebug.frameworks.keras.traced import Shown
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings

UNFOLLOWED = "operations are followed only in `fit`, not in custom loops"


class LoopTap:
    """Collects, between two steps, every call that does not belong to `fit` (see `calls.CallListener`).

    Calls inside a tf.function of the user's are seen once, while it is traced, and have no values.
    """

    def __init__(
        self,
        network: Network,
        guard: Guard,
        steps: Sequence[TrainSteps],
        before_update: Callable[[Any], None],
    ) -> None:
        self._network = network
        self._guard = guard
        self._steps = steps
        self._before_update = before_update
        self._thread = threading.get_ident()
        self.optimizers: list[Any] = []
        self.is_in_use = False
        self.is_hidden = False
        self.has_stepped = False
        self.tap = StepTap(network, guard, wants_layers=False, unfollowed=UNFOLLOWED)
        self.datasets = Datasets(guard)
        self._given: tuple[Any, ...] = ()

    def begin_step(self, *, sampling: bool) -> None:
        self._thread = threading.get_ident()
        self.has_stepped = False
        self._given = ()
        self.tap = StepTap(self._network, self._guard, wants_layers=sampling, unfollowed=UNFOLLOWED)

    def finish(self) -> StepTap | None:
        """Return the tap of this step; None if nothing was seen."""
        is_empty = not (self.has_stepped or self.is_hidden)
        return None if is_empty else self.tap

    def forget(self) -> None:
        """Release what was seen, the optimizers and the `TrainSteps`."""
        self.begin_step(sampling=False)
        self.optimizers.clear()
        self._steps = ()

    @property
    def was_taped(self) -> bool:
        """Whether a batch went through a model under a tape."""
        return bool(self._given)

    def shown(self, settings: Settings) -> Shown:
        """Return what this step shows, in the form that `TrainSteps` uses for its steps."""
        tap = self.tap
        inputs = [dense(tensor) for _, tensor in tensors_in(self._given)]
        seen = [each for each in tap.losses if not hasattr(each.target, "graph")]
        # `targets`, `given` and `values` must match `tap.losses` by position, so all of them need values.
        seen = seen if len(seen) == len(tap.losses) else []
        targets = [tf.convert_to_tensor(each.target) for each in seen]
        return {
            "inputs": inputs,
            "labels": targets,
            "targets": targets,
            "given": [each.given for each in seen],
            "values": [each.output for each in seen],
            "behind": [each.behind for each in seen],
            "descended": [each for each in (tap.descended(),) if each is not None],
            "activations": [each for _, _, each in tap.activations()] if settings.activations else [],
            "gradients": [each for _, each, _ in tap.gradients()] if settings.gradients else [],
        }

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        if self._is_here():
            if is_without_tape():
                self.datasets.let_go()
            self.tap.entered(layer, args, kwargs)

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        if self._is_here():
            if not is_without_tape() and id(layer) in self._network.layers:
                # The outermost layer returns last, so this ends as the batch itself.
                self._given = (*args, *kwargs.values())
            self.tap.left(layer, args, kwargs, output)

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        if self._is_here():
            self.tap.lost(loss, target, given, output)

    def descends(self, target: Any, sources: Any) -> None:
        if self._is_here():
            self.tap.descends(target, sources)

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        if threading.get_ident() != self._thread or any(each.is_running for each in self._steps):
            return
        if not any(each is optimizer for each in self.optimizers):
            self.optimizers.append(optimizer)
        self.is_in_use = True
        # Inside a tf.function this call is only traced: there are no values to take.
        if not tf.executing_eagerly():
            self.is_hidden = True
            return
        self.has_stepped = True
        if not self._guard.is_off:
            try:
                self._before_update(optimizer)
            except Exception as error:
                self._guard.fault("looking at weights", error)
        self.tap.applies(optimizer, gradients, variables)

    def applied(self, optimizer: Any, variables: Any) -> None:
        if self._is_here():
            self.tap.applied(optimizer, variables)

    def _is_here(self) -> bool:
        return (
            threading.get_ident() == self._thread
            and tf.executing_eagerly()
            and not any(each.is_running for each in self._steps)
        )
