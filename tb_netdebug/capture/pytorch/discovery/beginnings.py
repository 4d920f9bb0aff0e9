"""Makes trainings of optimizers: which belong together, of which models, and when one begins."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from torch import nn
from torch.optim import Optimizer

from tb_netdebug.capture.pytorch.discovery.followed import Followed
from tb_netdebug.capture.pytorch.discovery.names import Place, user_place
from tb_netdebug.capture.pytorch.discovery.owners import (
    Owners,
    are_alike,
    find_owners,
    loose_model,
    parameter_ids,
    tensors_of,
)

if TYPE_CHECKING:
    from tb_netdebug.capture.zero_code.driver import ZeroCode

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
        self._overdue: set[int] = set()
        self._gone: deque[tuple[Followed, int]] = deque()
        self._of: weakref.WeakKeyDictionary[Optimizer, Followed | None] = weakref.WeakKeyDictionary()
        self.followed: list[Followed] = []

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

    def called(self, module: nn.Module) -> bool:
        """Any module, the outermost first; whether a training has begun.

        While another thread begins one this waits: it may be the training of this very module.
        """
        with self._lock:
            own = parameter_ids(module)
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

    # ---- a training goes on ------------------------------------------------------------------------------

    def knows(self, optimizer: Optimizer) -> bool:
        return optimizer in self._of

    def training_of(self, optimizer: Optimizer) -> Followed | None:
        """None for one whose training is not recorded."""
        return self._of.get(optimizer)

    def sweep(self) -> None:
        """Ends trainings whose optimizers are all gone: until now their models were kept alive for us."""
        has_closed = False
        while self._gone:
            followed, number = self._gone.popleft()
            if followed.lost(number) and followed in self.followed:
                self.followed.remove(followed)
                followed.close()
                has_closed = True
        if has_closed:
            gc.collect()  # hooks and models know each other: the memory is wanted now, for the next model

    # ---- a training begins -------------------------------------------------------------------------------

    def begin(self, *, called: nn.Module | None = None) -> bool:
        with self._lock:
            self.sweep()
            places = {number: place for number, (_, place) in self._waiting.items()}
            optimizers = [each for each in self._all_waiting() if not self._joins(each)]
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
        made = Followed.open(self._zero, models, optimizers, owners, places) if models else None
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

    def _follow(self, optimizer: Optimizer, followed: Followed | None) -> None:
        self._of[optimizer] = followed
        if followed is not None:
            forget = partial(self._gone.append, (followed, id(optimizer)))
            weakref.finalize(optimizer, forget).atexit = False

    def _is_ours(self, monitor: object) -> bool:
        return any(training.owns(monitor) for training in self._zero.trainings)


def has_gradients(model: nn.Module | None) -> bool:
    return model is not None and any(each.grad is not None for each in model.parameters())


def monitor_class() -> type | None:
    """When nobody has made a monitor yet, there is none to be found."""
    module = sys.modules.get("tb_netdebug.capture.monitor")
    return getattr(module, "Monitor", None)
