"""Hooks around optimizer steps: gradients before the step, weights and updates after it.

Owned by `adapter.TorchAdapter`; the probes read it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch.optim import Optimizer

from tb_netdebug.core.records.scalar_names import (
    GRADIENT_NORM,
    NONFINITE_GRADIENTS,
    TIME_OPTIMIZER,
    name_of_rate,
)
from tb_netdebug.core.records.step import Series
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.hooks import after_step, before_step
from tb_netdebug.frameworks.torch.interception import uncompiled
from tb_netdebug.frameworks.torch.parameters import Parameters, WatchedParameter
from tb_netdebug.frameworks.torch.reader import NO_OPTIMIZER, TensorReader, squares_of
from tb_netdebug.frameworks.torch.weights import Weights
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

# The one gradient to glance at is the smallest of this many, and has at most this many values: reading it
# takes about a microsecond.
MOST_GLANCED_AT = 4
MOST_GLANCED_VALUES = 4096


class OptimizerHooks:
    """Reads gradients, weights and updates around each optimizer's `step`.

    If no optimizers are given, those that move a watched parameter are found when they step.
    """

    def __init__(
        self,
        optimizers: Sequence[Optimizer],
        parameters: Parameters,
        collector: StepCollector,
        reader: TensorReader,
        guard: Guard,
        *,
        weights: Weights | None,
        gradients: bool,
    ) -> None:
        self._parameters = parameters
        self._collector = collector
        self._reader = reader
        self._guard = guard
        self._weights = weights
        self._gradients = gradients
        self._known: dict[int, KnownOptimizer] = {}
        self._stepping: Optimizer | None = None
        self._moved: list[WatchedParameter] = []  # the watched parameters of `_stepping`
        self._squares: dict[int, tuple[float, int] | None] = {}  # by optimizer; None: comes from a device
        self._glanced_at: tuple[list[WatchedParameter] | None, WatchedParameter | None] = (None, None)
        self.are_several = False  # more than one optimizer has been seen
        self.stepped = False
        self.steps = 0  # by optimizers that move a watched parameter, since watching began
        self._is_owed = False  # a step was to be sampled, but no optimizer has stepped since
        # Called before a step on gradients that are not finite.
        self.told_bad: Callable[[Optimizer], None] | None = None
        self._bad: set[int] = set()  # those of `_squares` with values that are not finite
        self._begun: set[int] = set()  # ids of optimizers inside their step
        self._hooks = list(self._install(optimizers))

    def _install(self, optimizers: Sequence[Optimizer]) -> list[Any]:
        if not optimizers:
            return [
                optimizer_steps.BEGINNING.listen(self._before),
                optimizer_steps.ENDED.listen(self._after),
            ]
        return [hook for optimizer in optimizers for hook in self._hooks_on(optimizer)]

    def _hooks_on(self, optimizer: Optimizer) -> list[Any]:
        self._parameters_of(optimizer)
        return [
            before_step(optimizer, self._before),
            after_step(optimizer, self._after),
        ]

    def add(self, optimizer: Optimizer) -> bool:
        """Watch an optimizer that was made later. If it moves nothing that is watched, return False."""
        if not self._parameters_of(optimizer):
            return False
        self._hooks += self._hooks_on(optimizer)
        return True

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def known(self) -> list[Optimizer]:
        """Return the optimizers that move watched parameters, in the order in which they were seen."""
        found = [(known.reference(), known.watched) for known in self._known.values()]
        return [optimizer for optimizer, watched in found if optimizer is not None and watched]

    def stepped_parameters(self) -> set[int]:
        """Return the ids of the watched parameters on which an optimizer has stepped in this step."""
        step = self._collector.step
        stepped = [known.watched for known in self._known.values() if known.step == step]
        return {id(each.tensor) for watched in stepped for each in watched}

    @property
    def is_stepping(self) -> bool:
        """Whether an optimizer is inside its step, as it is while it calls its closure."""
        return self._stepping is not None

    def put_rates(self) -> None:
        """Record the learning rate of each group; never wait for one that lies on a device."""
        number = 0
        for known in self._known.values():
            optimizer = known.reference()
            if optimizer is None or not known.watched:
                continue
            for group in optimizer.param_groups:
                rate = group.get("lr")
                # Capturable optimizers keep their rate in a tensor.
                if type(rate) is not float and isinstance(rate, torch.Tensor):
                    rate = rate.item() if rate.is_cpu else None
                if rate is not None:
                    self._collector.scalars[rate_name(number)] = rate
                number += 1

    def end_step(self) -> None:
        """Record the step's gradient norm over all optimizers that stepped, each counted once."""
        if not self.stepped:
            # Batches are being accumulated. Without this, every=4 and an optimizer that steps at every fourth
            # batch could miss each other for ever.
            self._is_owed = self._is_sampling
            self._squares, self._bad = {}, set()
            return
        self._is_owed = False
        self.stepped = False
        if self._squares:
            self._put_norm()
            self._squares, self._bad = {}, set()

    def _put_norm(self) -> None:
        total, bad = 0.0, 0
        for squares in self._squares.values():
            if squares is None:
                self._put_beside()
                return
            total += squares[0]
            bad += squares[1]
        self._collector.scalars[GRADIENT_NORM] = total**0.5
        self._collector.scalars[NONFINITE_GRADIENTS] = float(bad)

    def _put_beside(self) -> None:
        """Keep what is known of a norm that `arrivals` computes when the rest has come from a device."""
        for key, squares in self._squares.items():
            if squares is not None:
                self._reader.put_beside(squares, key)

    def look_at_gradients(self, key: int, watched: list[WatchedParameter]) -> None:
        """Sample the gradients in a sampled step; otherwise measure their norm when it is due."""
        is_sampling = self._is_sampling
        is_due = is_sampling or self._collector.wants_norm
        if not is_due and not (self._collector.wants_glance and self._glance_is_bad(watched)):
            return
        if is_sampling:
            named = gradients_of(watched)
            if (named or key != NO_OPTIMIZER) and self._sample(key, named):
                return
        gradients = [given for each in watched if (given := each.tensor.grad) is not None]
        if not gradients and key == NO_OPTIMIZER:
            return  # they may have been cleared already
        started = now()
        squares = self._squares[key] = self._reader.squares(gradients, key)
        if squares is not None and squares[1]:
            self._bad.add(key)
        self._collector.norm_secs += now() - started

    def _glance_is_bad(self, watched: list[WatchedParameter]) -> bool:
        """Return whether one small gradient is non-finite.

        If so, all gradients are read before they reach the weights.
        """
        started = now()
        if self._glanced_at[0] is not watched:
            self._glanced_at = watched, smallest_of_first(watched)
        small = self._glanced_at[1]
        given = None if small is None else small.tensor.grad
        is_bad = given is not None and self._reader.is_bad_on_host(given)
        self._collector.glance_secs += now() - started
        return is_bad

    @property
    def _is_sampling(self) -> bool:
        return self._collector.sampling or self._is_owed

    def squares_of_step(self, optimizer: Optimizer) -> tuple[float, int] | None:
        """Return the sum of squares of the finite gradients of its last step, and the number of the others.

        None if they were not measured, or if the result is still on a device.
        """
        return self._squares.get(id(optimizer))

    def sample_gradients(self, key: int, watched: Sequence[WatchedParameter]) -> bool:
        """Sample gradients. Return whether their norm could be taken from the same summaries."""
        return self._sample(key, gradients_of(watched))

    def _sample(self, key: int, gradients: Sequence[tuple[Series, torch.Tensor]]) -> bool:
        summaries = self._reader.sample(gradients)
        if len(summaries) < len(gradients):
            return False
        squares = self._squares[key] = squares_of(summaries)
        if squares[1]:
            self._bad.add(key)
        return True

    @uncompiled
    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._guard.is_off:
            return
        started = now()
        try:
            self._look_before(optimizer, has_closure(optimizer, args, kwargs))
        except Exception as error:
            self._guard.fault("looking at gradients", error)
        self._collector.spent_secs += now() - started
        if self._bad and id(optimizer) in self._bad and self.told_bad is not None:
            self.told_bad(optimizer)

    @uncompiled
    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._guard.is_off:
            return
        started = now()
        try:
            self._look_after(optimizer, has_closure(optimizer, args, kwargs))
        except Exception as error:
            self._guard.fault("looking at updates", error)
        self._collector.spent_secs += now() - started

    def _look_before(self, optimizer: Optimizer, with_closure: bool) -> None:
        self._stepping, self._moved = optimizer, self._parameters_of(optimizer)
        if not self._moved:
            return
        self._count(optimizer)
        if self._gradients and not with_closure:
            self.look_at_gradients(id(optimizer), self._moved)
        if self._weights is not None and (self._collector.sampling or self._is_owed):
            self._weights.keep(self._moved)
        self._collector.clock.enter(TIME_OPTIMIZER)

    def _count(self, optimizer: Optimizer) -> None:
        number = id(optimizer)
        self.stepped = True
        self.steps += 1
        self._known[number].step = self._collector.step
        self._begun.add(number)

    def _look_after(self, optimizer: Optimizer, with_closure: bool) -> None:
        self._collector.clock.enter(None)
        watched = self._moved if self._stepping is optimizer else self._parameters_of(optimizer)
        self._stepping = None
        if not watched:
            return
        number = id(optimizer)
        if number not in self._begun:  # watching began inside this step, in its closure
            self._count(optimizer)
        self._begun.discard(number)
        # An optimizer with a closure (LBFGS) computes gradients while it steps; the last ones it saw count.
        if self._gradients and with_closure:
            self.look_at_gradients(number, watched)
        if self._weights is not None:
            self._weights.count_step()
            if self._collector.sampling or self._is_owed:
                self._weights.look(watched)
        if self._collector.first_step is not None:
            self._collector.first_step.updated(id(optimizer))

    def _parameters_of(self, optimizer: Optimizer) -> list[WatchedParameter]:
        held = 0
        for group in optimizer.param_groups:
            held += len(group["params"])
        if self._parameters.is_stale:
            self._parameters.current()
        known = self._known.get(id(optimizer))
        if known is None or known.reference() is not optimizer:
            known = self._known[id(optimizer)] = KnownOptimizer(optimizer)
            self.are_several = len(self._known) > 1
            # A program may make an optimizer for every step; its entry goes with it.
            weakref.finalize(optimizer, forget, self._known, id(optimizer), known).atexit = False
        # Parameters may have been added to the models, or to the optimizer's groups.
        if known.changes != self._parameters.changes or known.held != held:
            known.watched = self._parameters.of(optimizer)
            known.changes, known.held = self._parameters.changes, held
        return known.watched


class KnownOptimizer:
    """A seen optimizer and the watched parameters that it moves; it is not kept alive."""

    __slots__ = ("changes", "held", "reference", "step", "watched")

    def __init__(self, optimizer: Optimizer) -> None:
        self.reference = weakref.ref(optimizer)
        self.changes = self.held = -1
        self.step = -1  # the latest in which it stepped
        self.watched: list[WatchedParameter] = []


def forget(all_known: dict[int, KnownOptimizer], number: int, known: KnownOptimizer) -> None:
    """Drop the entry of a collected optimizer, unless another one has taken over its id."""
    if all_known.get(number) is known:
        del all_known[number]


def gradients_of(watched: Sequence[WatchedParameter]) -> list[tuple[Series, torch.Tensor]]:
    """Return the gradients that exist, each with its series."""
    return [(each.gradient, given) for each in watched if (given := each.tensor.grad) is not None]


def smallest_of_first(watched: Sequence[WatchedParameter]) -> WatchedParameter | None:
    """Return the smallest parameter of the first layers, mostly a bias.

    Whatever goes wrong on the way back reaches the first layers.
    """
    small = [each for each in watched[:MOST_GLANCED_AT] if each.tensor.numel() <= MOST_GLANCED_VALUES]
    return min(small, key=lambda each: each.tensor.numel(), default=None)


@cache
def rate_name(number: int) -> str:
    return name_of_rate(number)


def has_closure(optimizer: Optimizer, args: Any, kwargs: Any) -> bool:
    """Return whether `step` was called with a closure."""
    # The hook of a single optimizer finds the optimizer among the arguments, the global hook does not.
    if not kwargs and (not args or ((args[0] is optimizer or args[0] is None) and not args[1:])):
        return False
    if args and args[0] is optimizer:
        args = args[1:]
    return bool(args and args[0] is not None) or kwargs.get("closure") is not None
