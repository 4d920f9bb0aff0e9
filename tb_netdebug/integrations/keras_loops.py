"""Custom training loops with an optimizer of Keras: finds their models and the ends of their steps."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras

from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.frameworks.keras.calls import leave, listen

if TYPE_CHECKING:
    from tb_netdebug.integrations.keras_trainings import KerasDiscovery, KerasTraining
    from tb_netdebug.training.zero_code.driver import ZeroCode


class Loops:
    """A `calls.CallListener` that ends a step when an optimizer has updated its weights.

    The first step reveals the run, so it is not recorded itself.
    """

    def __init__(self, zero_code: ZeroCode, discovery: KerasDiscovery) -> None:
        self._zero = zero_code
        self._discovery = discovery
        self._thread = threading.get_ident()
        self._inside = 0
        self._by_optimizer: dict[int, tuple[Any, KerasTraining]] = {}
        listen(self)

    def close(self) -> None:
        leave(self)
        self._by_optimizer.clear()

    # ---- calls of Keras ----------------------------------------------------------------------------------

    def entered(self, layer: Any, args: Any, kwargs: Any) -> None:
        """Ignore calls of layers."""

    def left(self, layer: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Ignore calls of layers."""

    def lost(self, loss: Any, target: Any, given: Any, output: Any) -> None:
        """Ignore losses: an evaluation computes them, too."""

    def descends(self, target: Any, sources: Any) -> None:
        """Ignore gradients; TapeLoops uses them."""

    def applies(self, optimizer: Any, gradients: Any, variables: Any) -> None:
        if self._is_here():
            # Calls nest, as when a LossScaleOptimizer calls its inner optimizer: the outermost one is the
            # step.
            self._inside += 1

    def applied(self, optimizer: Any, variables: Any) -> None:
        if self._is_here() and self._inside:
            self._inside -= 1
            if not self._inside:
                self._moved(optimizer, weights_of(optimizer, variables))

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_here(self) -> bool:
        is_ours = threading.get_ident() == self._thread and not self._discovery.is_in_fit
        return is_ours and not self._zero.is_off

    def _moved(self, optimizer: Any, weights: list[Any]) -> None:
        """End a step after an update; the adapter knows the loss where it can be known."""
        self._ended(optimizer, weights, None)

    def _ended(self, optimizer: Any, weights: list[Any], loss: Any) -> KerasTraining | None:
        """End a step of a known run, or find the run that this optimizer belongs to."""
        known = self._by_optimizer.get(id(optimizer))
        if known is not None and known[1].training.is_open:
            try:
                known[1].training.step(loss, {})
            except FindingError:
                raise
            except Exception as error:
                self._zero.fault("ending a step", error)
            return known[1]
        models = named(owners_of(weights))
        followed = self._discovery.training_of(models, optimizer) if models else None
        if followed is not None:
            self._by_optimizer[id(optimizer)] = optimizer, followed
        return followed


def weights_of(optimizer: Any, variables: Any) -> list[Any]:
    return list(variables if variables is not None else getattr(optimizer, "_trainable_variables", []))


def owners_of(weights: Sequence[Any]) -> list[Any]:
    """Return the outermost layers that hold these weights: one with all of them, or as few as possible."""
    wanted = {id(each) for each in weights}
    kinds: dict[type, bool] = {}
    layers = [
        each for each in gc.get_objects() if is_kind_of_layer(type(each), kinds) and "_layers" in vars(each)
    ]
    held = {id(each): wanted & {id(one) for one in each.trainable_variables} for each in layers}
    below = {id(child) for each in layers if held[id(each)] for child in each._layers}
    outermost = [each for each in layers if held[id(each)] and id(each) not in below]
    # Layers with most of the weights first, and of those the smallest.
    outermost.sort(key=lambda each: (-len(held[id(each)]), len(each.trainable_variables)))
    found, missing = [], set(wanted)
    for each in outermost:
        if held[id(each)] & missing:
            found.append(each)
            missing -= held[id(each)]
    return found


def is_kind_of_layer(kind: type, known: dict[type, bool]) -> bool:
    """Return whether a class is a kind of layer; `known` caches the answers.

    The class is examined, not the object: a lazy proxy would load what it stands for.
    """
    found = known.get(kind)
    if found is None:
        found = known[kind] = issubclass(kind, keras.layers.Layer)
    return found


def named(models: Sequence[Any]) -> dict[str, Any]:
    """Return the models by the names that Keras gave them; a single model needs no name."""
    if len(models) == 1:
        return {"": models[0]}
    found: dict[str, Any] = {}
    for model in models:
        name, number = model.name, 1
        while name in found:
            number += 1
            name = f"{model.name}-{number}"
        found[name] = model
    return found
