"""Makes trainings of optimizers: which belong together, of which models, and when one begins."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from tb_netdebug.integrations.torch_scripts.closing import Closing
from tb_netdebug.integrations.torch_scripts.followed import FollowedTraining
from tb_netdebug.integrations.torch_scripts.inputs import Inputs
from tb_netdebug.integrations.torch_scripts.names import Place, user_place
from tb_netdebug.integrations.torch_scripts.owners import (
    Owners,
    all_of,
    are_alike,
    find_owners,
    loose_model,
    parameter_ids,
    tensors_of,
)

if TYPE_CHECKING:
    from tb_netdebug.training.zero_code.driver import ZeroCode

# Calls of modules that have nothing to do with a waiting optimizer; after so many it is found when it steps.
MOST_CALLS_LOOKED_AT = 1000
MOST_STRANGERS = 4


class Beginnings:
    """An optimizer that is made waits until one of its models is called with gradients on.

    By then models have got their names and wrappers, and all optimizers of a training are there: those that
    wait together are watched together. One whose models were not called when it steps is overdue; it begins
    with the next call or backward pass.
    """

    def __init__(self, zero_code: ZeroCode) -> None:
        self._zero = zero_code
        self._lock = threading.RLock()  # several threads may begin to train at the same time
        self._waiting: dict[int, tuple[weakref.ref[Optimizer], Place | None]] = {}
        self._wanted: set[int] = set()
        self._strangers: list[weakref.ref[nn.Module]] = []
        self._calls_left = 0
        self._inputs = Inputs()
        self._overdue: set[int] = set()
        self._gone: deque[tuple[FollowedTraining, int]] = deque()
        self._of: weakref.WeakKeyDictionary[Optimizer, FollowedTraining | None] = weakref.WeakKeyDictionary()
        self.followed: list[FollowedTraining] = []
        self._sweeping = threading.RLock()
        self._closing = Closing(lambda: zero_code.attempt("closing a run", self.sweep))

    # ---- an optimizer waits ------------------------------------------------------------------------------

    def wait_for(self, optimizer: Optimizer) -> None:
        place = user_place()
        with self._lock:
            self._zero.optimizers += 1
            self._waiting[id(optimizer)] = (weakref.ref(optimizer), place)
            self._wanted |= {id(tensor) for tensor in tensors_of(optimizer)}
            self._calls_left = MOST_CALLS_LOOKED_AT

    def overdue(self, optimizer: Optimizer) -> None:
        """It steps unknown, for it was copied or was there before us; or its models were not called."""
        with self._lock:
            if id(optimizer) not in self._waiting:
                self.wait_for(optimizer)
            self._overdue.add(id(optimizer))
            self._strangers = [each for each in self._strangers if has_gradients(each())]

    @property
    def wants_calls(self) -> bool:
        """Whether calls of modules are worth looking at."""
        return bool(self._waiting) and self._calls_left > 0

    def called(self, module: nn.Module, given: Sequence[Any]) -> bool:
        """Any module with its arguments, the outermost first; whether a training has begun.

        While another thread begins one this waits: it may be the training of this very module.
        """
        with self._lock:
            own = parameter_ids(module)
            if own:  # a loss is no network
                self._inputs.note(given, self._wanted)
            if self._overdue or not own.isdisjoint(self._wanted):
                return self.begin(called=module)
            if own and len(self._strangers) < MOST_STRANGERS:
                self._strangers.append(weakref.ref(module))
            self._calls_left -= 1
            return False

    def differentiated(self) -> bool:
        """A backward pass, perhaps of what is no module at all; whether a training has begun."""
        if self._waiting and (self._overdue or not self._strangers):
            return self.begin()
        return False

    @property
    def has_optimizers(self) -> bool:
        """Whether the program has any of torch's that is alive."""
        return len(self._of) > 0 or (bool(self._waiting) and bool(self._all_waiting()))

    def unrecorded(self) -> str:
        """Why nothing was recorded, as far as it is known here."""
        return self._inputs.unrecorded()

    def begin_by_hand(self, tensors: Sequence[Any]) -> tuple[FollowedTraining, list[nn.Module]] | None:
        """A training whose updates are made without an optimizer.

        None when these are no parameters of a model, as when the input of a network is moved uphill.
        """
        with self._lock:
            owners = find_owners([Updated(tensors)], monitor_class=monitor_class())
            if any(monitor._is_open() and not self._is_ours(monitor) for monitor in owners.monitors):
                self._zero.stand_aside()
                return None
            models = owners.all_models()
            if not models and owners.loose and not has_models():
                models = [loose_model(owners.loose)]
            made = FollowedTraining.open(self._zero, models, [], Owners(), {}) if models else None
            if made is None:
                return None
            self.followed.append(made)
            return made, models

    # ---- a training goes on ------------------------------------------------------------------------------

    def knows(self, optimizer: Optimizer) -> bool:
        return optimizer in self._of

    def training_of(self, optimizer: Optimizer) -> FollowedTraining | None:
        """None for one whose training is not recorded."""
        return self._of.get(optimizer)

    def sweep(self) -> None:
        """Ends trainings whose optimizers are all gone: until now their models were kept alive for us."""
        if not self._gone and self._closing.is_idle:
            return
        with self._sweeping:
            has_closed = False
            while self._gone:
                followed, number = self._gone.popleft()
                if followed.lost(number) and followed in self.followed:
                    self.followed = [each for each in self.followed if each is not followed]
                    followed.close()
                    has_closed = True
            if has_closed:
                gc.collect()  # hooks and models know each other: the memory is wanted now, for the next model

    def close(self) -> None:
        """Harmless when called again."""
        self._closing.close()
        self.followed = []

    def forked(self) -> None:
        """In the child."""
        self._lock = threading.RLock()

    # ---- a training begins -------------------------------------------------------------------------------

    def begin(self, *, called: nn.Module | None = None) -> bool:
        with self._lock:
            self.sweep()
            places = {number: place for number, (_, place) in self._waiting.items()}
            optimizers = [each for each in self._all_waiting() if not self._joins(each)]
            optimizers = [each for each in optimizers if not self._moves_inputs(each, places)]
            self._waiting.clear()
            has_begun = bool(optimizers) and self._begin_with(optimizers, places, called)
            self._wanted = {id(tensor) for each in self._all_waiting() for tensor in tensors_of(each)}
            self._overdue.clear()
            if not self._waiting:
                self._strangers.clear()
            return has_begun

    def _all_waiting(self) -> list[Optimizer]:
        return [each for reference, _ in self._waiting.values() if (each := reference()) is not None]

    def _joins(self, optimizer: Optimizer) -> bool:
        """Whether it moves what is watched already: a new one for the next phase of the same training."""
        for followed in self.followed:
            if followed.takes_in(optimizer):
                self._follow(optimizer, followed)
                return True
        return False

    def _moves_inputs(self, optimizer: Optimizer, places: dict[int, Place | None]) -> bool:
        """Whether it moves the inputs of a network alone, and trains nothing."""
        if not self._inputs.are_all_of(optimizer):
            return False
        may_be_owned = any(isinstance(tensor, nn.Parameter) for tensor in tensors_of(optimizer))
        if may_be_owned and find_owners([optimizer]).all_models():
            return False
        self._inputs.let_go(optimizer, places.get(id(optimizer)))
        self._zero.optimizers -= 1
        self._follow(optimizer, None)
        return True

    def _begin_with(
        self, optimizers: list[Optimizer], places: dict[int, Place | None], called: nn.Module | None
    ) -> bool:
        owners = find_owners(optimizers, called=called, monitor_class=monitor_class())
        if any(monitor._is_open() and not self._is_ours(monitor) for monitor in owners.monitors):
            self._zero.stand_aside()
            return False
        if are_alike(optimizers, owners.models):
            optimizers, owners = self._only_one(optimizers, owners, places, called)
        models = owners.all_models() + (self._trained_strangers(owners) if self._overdue else [])
        if not models and owners.loose and not self.followed:
            models = [loose_model(owners.loose)]
        made = FollowedTraining.open(self._zero, models, optimizers, owners, places) if models else None
        if made is not None:
            self.followed.append(made)
        for optimizer in optimizers:
            self._follow(optimizer, made)
        return made is not None

    def _only_one(
        self,
        optimizers: Sequence[Optimizer],
        owners: Owners,
        places: dict[int, Place | None],
        called: nn.Module | None,
    ) -> tuple[list[Optimizer], Owners]:
        """Of several trainings of the same network the one that begins; the others wait on."""
        due = [id(each) in self._overdue for each in optimizers]
        own = [model is called for (model,) in owners.models]
        chosen = due.index(True) if True in due else own.index(True) if True in own else 0
        for place, optimizer in enumerate(optimizers):
            if place != chosen:
                self._waiting[id(optimizer)] = (weakref.ref(optimizer), places.get(id(optimizer)))
        return [optimizers[chosen]], Owners([owners.models[chosen]], [], owners.monitors)

    def _trained_strangers(self, owners: Owners) -> list[nn.Module]:
        """Models that were called and have got gradients, and that no optimizer has: it has another copy."""
        called = [module for reference in self._strangers if (module := reference()) is not None]
        known = {id(module) for model in owners.all_models() for module in model.modules()}
        return [module for module in called if id(module) not in known]

    def _follow(self, optimizer: Optimizer, followed: FollowedTraining | None) -> None:
        self._of[optimizer] = followed
        if followed is not None:
            weakref.finalize(optimizer, self._is_gone, followed, id(optimizer)).atexit = False
            if self._zero.may_close_aside:
                self._closing.begin()

    def _is_gone(self, followed: FollowedTraining, number: int) -> None:
        self._gone.append((followed, number))
        self._closing.rouse()

    def _is_ours(self, monitor: object) -> bool:
        return any(training.owns(monitor) for training in self._zero.trainings)


class Updated:
    """Stands for an optimizer where there is none: the tensors that were changed."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.param_groups = [{"params": list(tensors)}]


def has_models() -> bool:
    """Whether the program has networks: then tensors that belong to none are their inputs."""
    modules, _ = all_of(nn.Module, None)
    return any(any(tensor is not None for tensor in module._parameters.values()) for module in modules)


def has_gradients(model: nn.Module | None) -> bool:
    return model is not None and any(each.grad is not None for each in model.parameters())


def monitor_class() -> type | None:
    """When nobody has made a monitor yet, there is none to be found."""
    module = sys.modules.get("tb_netdebug.training.monitor")
    return getattr(module, "Monitor", None)
