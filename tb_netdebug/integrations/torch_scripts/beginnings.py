"""Groups optimizers into training runs: which belong together, with which models, and when one begins."""

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

from tb_netdebug.frameworks.torch.numerics.flags import flags_of
from tb_netdebug.integrations.torch_scripts.closing import Closing
from tb_netdebug.integrations.torch_scripts.followed import FollowedTraining
from tb_netdebug.integrations.torch_scripts.inputs import Inputs
from tb_netdebug.integrations.torch_scripts.names import Place, user_place
from tb_netdebug.integrations.torch_scripts.owners import (
    Owners,
    all_modules,
    are_alike,
    are_of_one_shape,
    find_owners,
    loose_model,
    parameter_ids,
    tensors_of,
)

if TYPE_CHECKING:
    from tb_netdebug.training.zero_code.driver import ZeroCode

# How many calls of unrelated modules are examined; after that an optimizer is found when it steps.
MOST_CALLS_LOOKED_AT = 1000
MOST_STRANGERS = 4


class Beginnings:
    """Keeps new optimizers waiting until one of their models is called with gradients enabled.

    By then models have their names and wrappers, and all optimizers of a run exist: those that wait
    together are watched together. An optimizer that steps although none of its models was called is overdue;
    its run begins with the next call or backward pass.
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
        """Add a new optimizer to those that wait."""
        place = user_place()
        with self._lock:
            self._zero.optimizers += 1
            self._waiting[id(optimizer)] = (weakref.ref(optimizer), place)
            self._wanted |= {id(tensor) for tensor in tensors_of(optimizer)}
            self._calls_left = MOST_CALLS_LOOKED_AT

    def overdue(self, optimizer: Optimizer) -> None:
        """Mark an optimizer that steps without belonging to a run.

        It is unknown, because it was copied or is older than the discovery, or its models were not called.
        """
        with self._lock:
            if id(optimizer) not in self._waiting:
                self.wait_for(optimizer)
            self._overdue.add(id(optimizer))
            self._strangers = [each for each in self._strangers if has_gradients(each())]

    @property
    def wants_calls(self) -> bool:
        """Whether calls of modules are worth examining."""
        return bool(self._waiting) and self._calls_left > 0

    def called(self, module: nn.Module, given: Sequence[Any]) -> bool:
        """Take note of a call of a module with its arguments, and return whether a run has begun.

        The outermost module is reported first. While another thread begins a run, this waits: it may be
        the run of this very module.
        """
        with self._lock:
            own = parameter_ids(module)
            if own:  # a loss without parameters is no network
                self._inputs.note(given, self._wanted)
            if self._overdue or not own.isdisjoint(self._wanted):
                return self.begin(called=module)
            if own and len(self._strangers) < MOST_STRANGERS:
                self._strangers.append(weakref.ref(module))
            self._calls_left -= 1
            return False

    def differentiated(self) -> bool:
        """Take note of a backward pass, and return whether a run has begun.

        The pass may be of something that is no module at all.
        """
        if self._waiting and (self._overdue or not self._strangers):
            return self.begin()
        return False

    @property
    def has_optimizers(self) -> bool:
        """Whether the program has an optimizer of torch that is alive."""
        return len(self._of) > 0 or (bool(self._waiting) and bool(self._all_waiting()))

    def has_cleared_gradients(self, *, or_ends: bool) -> bool:
        """Return whether no known optimizer will step on non-finite gradients."""
        known = list(self._of)
        # Without an optimizer, nobody can say what the program does with its gradients.
        return bool(known) and (or_ends or not any(holds_bad_gradients(each) for each in known))

    def unrecorded(self) -> str:
        """Return why nothing was recorded, as far as it is known here."""
        return self._inputs.unrecorded()

    def begin_by_hand(self, tensors: Sequence[Any]) -> tuple[FollowedTraining, list[nn.Module]] | None:
        """Begin a run whose updates are made without an optimizer.

        Return None when the tensors are no parameters of a model, as when the input of a network is
        optimized.
        """
        with self._lock:
            if self._stands_aside():
                return None
            # Other tensors may be inputs of a network, and then there is nothing to count.
            if any(isinstance(each, nn.Parameter) for each in tensors) and not self._zero.may_open():
                self._zero.passed_over += 1
                return None
            owners = find_owners([Updated(tensors)])
            models = owners.all_models()
            if not models and owners.loose and not has_models():
                models = [loose_model(owners.loose)]
            made = FollowedTraining.open(self._zero, models, [], Owners(), {}) if models else None
            if made is None:
                return None
            self.followed.append(made)
            return made, models

    # ---- a run in progress -------------------------------------------------------------------------------

    def knows(self, optimizer: Optimizer) -> bool:
        return optimizer in self._of

    def training_of(self, optimizer: Optimizer) -> FollowedTraining | None:
        """Return the run of an optimizer, or None if it is not recorded."""
        return self._of.get(optimizer)

    def sweep(self) -> None:
        """Close runs whose optimizers are all gone; until then we keep their models alive."""
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
                gc.collect()  # hooks and models form cycles; the next model needs the memory now

    def close(self) -> None:
        """Stop the closing thread and forget the runs. May be called more than once."""
        self._closing.close()
        self.followed = []

    def forked(self) -> None:
        """Replace the lock in a forked child: a thread that does not exist there may have held it."""
        self._lock = threading.RLock()

    # ---- a run begins ------------------------------------------------------------------------------------

    def begin(self, *, called: nn.Module | None = None) -> bool:
        """Begin a run with the waiting optimizers, and return whether one has begun."""
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
        """Return whether the optimizer updates watched parameters, and if so add it to their run.

        Programs make a new optimizer for the next phase of the same training.
        """
        for followed in self.followed:
            if followed.takes_in(optimizer):
                self._follow(optimizer, followed)
                return True
        return False

    def _moves_inputs(self, optimizer: Optimizer, places: dict[int, Place | None]) -> bool:
        """Return whether the optimizer updates only inputs of a network, and so trains nothing."""
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
        if self._stands_aside():
            return False
        # Before the search for the models, which is most of what a short run costs.
        if not self._zero.may_open():
            self._pass_over(optimizers, places, called)
            return False
        owners = find_owners(optimizers, called=called)
        if are_alike(optimizers, owners.models):
            optimizers, owners = self._only_one(optimizers, owners, places, called)
        # An optimizer that steps although none of its models was called may hold the parameters of a copy.
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
        """Return the one of several alike runs that begins; the others go on waiting."""
        chosen = self._chosen(optimizers, [model is called for (model,) in owners.models], places)
        return [optimizers[chosen]], Owners([owners.models[chosen]])

    def _chosen(
        self, optimizers: Sequence[Optimizer], own: Sequence[bool], places: dict[int, Place | None]
    ) -> int:
        """Choose one of several alike runs, and let the others wait; `own` says whose model is called."""
        due = [id(each) in self._overdue for each in optimizers]
        chosen = due.index(True) if True in due else own.index(True) if True in own else 0
        for place, optimizer in enumerate(optimizers):
            if place != chosen:
                self._waiting[id(optimizer)] = (weakref.ref(optimizer), places.get(id(optimizer)))
        return chosen

    def _pass_over(
        self, optimizers: list[Optimizer], places: dict[int, Place | None], called: nn.Module | None
    ) -> None:
        """Count a run that is not recorded, and know its optimizers from now on.

        Optimizers that share no tensor but update the same shapes are taken for those of separate runs, as in
        `are_alike`.
        """
        ids = [{id(tensor) for tensor in tensors_of(each)} for each in optimizers]
        are_apart = len(set().union(*ids)) == sum(map(len, ids))
        if are_apart and are_of_one_shape(optimizers):
            of_called = parameter_ids(called) if called is not None else set()
            own = [not each.isdisjoint(of_called) for each in ids]
            optimizers = [optimizers[self._chosen(optimizers, own, places)]]
        self._zero.passed_over += 1
        for optimizer in optimizers:
            self._follow(optimizer, None)

    def _trained_strangers(self, owners: Owners) -> list[nn.Module]:
        """Return called models with gradients that no optimizer has: it has another copy of them."""
        called = [module for reference in self._strangers if (module := reference()) is not None]
        known = {id(module) for model in owners.all_models() for module in model.modules()}
        return [module for module in called if id(module) not in known]

    def _follow(self, optimizer: Optimizer, followed: FollowedTraining | None) -> None:
        # None is kept as well: the optimizer is known, and its run is not recorded.
        self._of[optimizer] = followed
        if followed is not None:
            # Not at exit: the `finish` of ZeroCode closes all runs then.
            weakref.finalize(optimizer, self._is_gone, followed, id(optimizer)).atexit = False
            if self._zero.may_close_aside:
                self._closing.begin()

    def _is_gone(self, followed: FollowedTraining, number: int) -> None:
        self._gone.append((followed, number))
        self._closing.rouse()

    def _stands_aside(self) -> bool:
        """Stop watching if the program has an open monitor of its own; return whether it has."""
        module = sys.modules.get("tb_netdebug.training.monitor")
        monitors = () if module is None else module.open_monitors()
        if all(any(training.owns(each) for training in self._zero.trainings) for each in monitors):
            return False
        self._zero.stand_aside()
        return True


class Updated:
    """A stand-in for an optimizer where there is none: the tensors that were changed."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self.param_groups = [{"params": list(tensors)}]


def has_models() -> bool:
    """Return whether the program has networks; then tensors that belong to none are their inputs."""
    parameters = (tensor for module in all_modules() for tensor in module._parameters.values())
    return any(tensor is not None for tensor in parameters)


def has_gradients(model: nn.Module | None) -> bool:
    return model is not None and any(each.grad is not None for each in model.parameters())


def holds_bad_gradients(optimizer: Optimizer) -> bool:
    """Return whether any of its gradients is non-finite."""
    gradients = (each.grad for each in tensors_of(optimizer))
    return any(each is not None and flags_of(each).any for each in gradients)
