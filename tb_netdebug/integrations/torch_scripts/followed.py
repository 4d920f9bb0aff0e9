"""A training run that `netdebug run` has found: its optimizers, and the names of their losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from tb_netdebug.frameworks.torch.adapter import TorchAdapter
from tb_netdebug.integrations.torch_scripts.names import Place, common_prefix, named, names_at, unused
from tb_netdebug.integrations.torch_scripts.owners import Loose, Owners, parameter_ids, tensors_of
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings
from tb_netdebug.recording.step_cycle import StepCycle
from tb_netdebug.training.zero_code.training import Training

if TYPE_CHECKING:
    from tb_netdebug.training.zero_code.driver import ZeroCode


class FollowedTraining:
    """Ends the steps of a run when its optimizers have stepped."""

    def __init__(
        self,
        training: Training,
        adapter: TorchAdapter,
        optimizers: Sequence[Optimizer],
        names: dict[int, str],
    ) -> None:
        self._training = training
        self._adapter: TorchAdapter | None = adapter
        self._alive = {id(optimizer) for optimizer in optimizers}
        self._cycle = StepCycle(self._alive, alone=overlapping(optimizers))
        self._names = names
        self._losses: dict[str, Any] = {}

    @classmethod
    def open(
        cls,
        zero_code: ZeroCode,
        models: Sequence[nn.Module],
        optimizers: Sequence[Optimizer],
        owners: Owners,
        places: dict[int, Place | None],
    ) -> FollowedTraining | None:
        """Open a run for these models and optimizers, or return None when it is not to be recorded."""
        by_name = named(models, guesses_of(optimizers, owners, places))
        made: list[TorchAdapter] = []

        def make(collector: StepCollector, guard: Guard, settings: Settings) -> TorchAdapter:
            if any(isinstance(model, Loose) for model in models):
                settings = replace(settings, activations=False)  # nothing calls it
            made.append(TorchAdapter(by_name, optimizers, collector, guard, settings))
            return made[0]

        training = zero_code.open(make)
        if training is None:
            return None
        return cls(training, made[0], optimizers, loss_names(optimizers, by_name))

    def takes_in(self, optimizer: Optimizer) -> bool:
        """Watch an optimizer from now on if it updates a parameter of ours; return whether it does."""
        if self._adapter is None or not self._adapter.join(optimizer):
            return False
        self._alive.add(id(optimizer))
        self._cycle.join(id(optimizer))
        return True

    def stepped(self, optimizer: Optimizer, loss: Any) -> None:
        """Take note of an optimizer's step with its loss; end the run's step when all have stepped."""
        if loss is not None:
            self._losses[self._names.get(id(optimizer), "")] = loss
        if self._cycle.stepped(id(optimizer)):
            self._end()

    @property
    def is_open(self) -> bool:
        return self._training.is_open

    def differentiated(self) -> None:
        """Report that the gradients of a step by hand are there."""
        if self._adapter is not None and self._training.is_open:
            self._adapter.differentiated()

    def updated_by_hand(self, loss: Any) -> None:
        """End a step that no optimizer has made."""
        if loss is not None:
            self._losses[""] = loss
        self._end()

    def interrupted(self, loss: Any) -> None:
        """End the step in which the program has failed: it is the one worth seeing.

        An error in the forward pass leaves no step, only a capsule.
        """
        has_failed_at_once = loss is None and self._adapter is not None and self._adapter.is_in_forward
        if self._training.has_begun_a_step() and not has_failed_at_once:
            if loss is not None:
                self._losses[""] = loss
            self._end()

    def lost(self, number: int) -> bool:
        """Remove an optimizer that is gone, and return whether it was the last one."""
        self._alive.discard(number)
        self._cycle.leave(number)
        return not self._alive

    def close(self) -> None:
        """Close the run and release the model."""
        self._adapter = None
        self._training.close()

    def _end(self) -> None:
        losses, self._losses = self._losses, {}
        several = {f"loss_{name}": value for name, value in losses.items() if name} if len(losses) > 1 else {}
        self._training.step(total(list(losses.values())), several)


def total(losses: Sequence[Any]) -> Any:
    """Return the sum of the losses: None without any, the first one if they are on several devices."""
    if not losses:
        return None
    places = {value.device for value in losses if isinstance(value, torch.Tensor)}
    return losses[0] if len(places) > 1 else sum(losses)


def overlapping(optimizers: Sequence[Optimizer]) -> set[int]:
    """Return the ids of optimizers that share parameters with another one."""
    moved = {id(each): {id(tensor) for tensor in tensors_of(each)} for each in optimizers}
    return {
        number
        for number, own in moved.items()
        if any(number != other and not own.isdisjoint(theirs) for other, theirs in moved.items())
    }


def guesses_of(
    optimizers: Sequence[Optimizer], owners: Owners, places: dict[int, Place | None]
) -> dict[int, str]:
    """Return names from the lines that made the optimizers, by id of the model."""
    found: dict[int, str] = {}
    for optimizer, models in zip(optimizers, owners.models, strict=True):
        names = names_at(places.get(id(optimizer)))
        if len(names) == len(models):
            found |= {id(model): name for model, name in zip(models, names, strict=True)}
    return found


def loss_names(optimizers: Sequence[Optimizer], models: dict[str, nn.Module]) -> dict[int, str]:
    """Return a name for the loss of each optimizer, by the optimizer's id.

    It is the name of the model, or of the part of it, that the optimizer updates.
    """
    if len(optimizers) < 2:
        return {}
    ids = {name: parameter_ids(model) for name, model in models.items()}
    found: dict[int, str] = {}
    for number, optimizer in enumerate(optimizers, 1):
        own = {id(tensor) for tensor in tensors_of(optimizer)}
        moved = [name for name, theirs in ids.items() if not own.isdisjoint(theirs)]
        name = moved[0] if len(moved) == 1 else ""
        if not name and len(models) == 1:
            (model,) = models.values()
            name = common_prefix([each for each, tensor in model.named_parameters() if id(tensor) in own])
        found[id(optimizer)] = unused(name or str(number), found.values())
    return found
