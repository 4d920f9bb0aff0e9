"""The probe for what is trained: which parameters are in an optimizer, and which of them get gradients."""

from __future__ import annotations

from collections.abc import Mapping
from threading import get_ident
from typing import Any

import torch
from torch.optim import Optimizer

from tb_netdebug.core.records.facts import ElsewhereFact, IgnoredOutputsFact, Names
from tb_netdebug.frameworks.torch import optimizer_steps
from tb_netdebug.frameworks.torch.backward import BackwardWatch, watch_backward
from tb_netdebug.frameworks.torch.coverage.calls import CallWatch, WatchedCalls
from tb_netdebug.frameworks.torch.coverage.gradients import GradientsSeen
from tb_netdebug.frameworks.torch.coverage.idle import IdleParameters
from tb_netdebug.frameworks.torch.coverage.members import Member, members_of
from tb_netdebug.frameworks.torch.coverage.optimizers import (
    NOT_DESCRIBED,
    HeldTensors,
    Missing,
    SteppedOptimizer,
    are_alike,
)
from tb_netdebug.frameworks.torch.coverage.unowned import Unowned
from tb_netdebug.frameworks.torch.optimizers import has_closure
from tb_netdebug.frameworks.torch.probe import ProbeContext
from tb_netdebug.recording.clock import now

is_compiling = torch.compiler.is_compiling
current_backward = torch._C._current_graph_task_id

# The second optimizer of a pair steps after the first.
STEPS_BEFORE_MISSING = 2
# Some models are trained in every fifth step only, such as the generator of a Wasserstein GAN.
STEPS_BEFORE_MISSING_MODEL = 8


class CoverageProbe:
    """Listens to every optimizer of the process (see `probes.Probe`).

    Optimizers that the user has not named count as well: a parameter that any of them holds is not missing.
    """

    def __init__(self, context: ProbeContext) -> None:
        self._context = context
        self._collector = context.collector
        self._guard = context.guard
        self._members: dict[int, Member] = {}
        self._generation = -1
        self._are_given = bool(context.optimizers.known())
        self._held = HeldTensors()
        self._missing = Missing()
        self._told_missing: list[str] = []
        self._gradients = GradientsSeen()
        self._calls = CallWatch()
        self._answer = WatchedCalls()
        self._told_ignored: Names = ()
        self._idle = IdleParameters()
        self._unowned = Unowned()
        self._told_elsewhere = 0
        self._thread = get_ident()
        self._late: list[SteppedOptimizer] = []  # with a closure: gradients come during the step
        self._steps = self._steps_before = 0  # steps of all optimizers
        self._training_steps = 0
        self._has_news = False
        self._hook = optimizer_steps.BEGINNING.listen(self._before)
        self._backward: BackwardWatch | None = watch_backward(self._before_backward, guard=context.guard)

    def close(self) -> None:
        self._hook.remove()
        self._calls.close()
        self._idle.close()
        self._close_backward()

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if is_compiling() or self._guard.is_off:
            return
        collector = self._collector
        held = self._held.of(optimizer)
        self._steps += 1
        if held is None or collector.probing:
            started = now()
            try:
                self._look(optimizer, with_closure=has_closure(optimizer, args, kwargs))
            except Exception as error:
                self._guard.fault("looking at what an optimizer holds", error)
            collector.charge(started)

    def _look(self, optimizer: Optimizer, *, with_closure: bool) -> None:
        held = self._held.look(optimizer)
        self._has_news = self._has_news or not held.is_told
        if not self._collector.probing:
            return
        if with_closure:
            self._late.append(held)
        else:
            self._gradients.look(held.ids, self._current())

    def _current(self) -> dict[int, Member]:
        parameters = self._context.parameters
        if parameters.is_stale or self._generation != parameters.changes:
            parameters.current()
            self._generation = parameters.changes
            self._members = members_of(self._context.models, self._context.settings.wants)
        return self._members

    def _before_backward(self, roots: Any) -> None:
        """Look at the graph for unowned parameters, early in a run only; then the hook is removed."""
        if is_compiling() or get_ident() != self._thread or current_backward() != -1:
            return
        if self._unowned.wants(self._training_steps):
            started = now()
            given = (roots,) if isinstance(roots, torch.Tensor) else tuple(roots)
            tensors = [root for root in given if isinstance(root, torch.Tensor)]
            self._unowned.look(tensors, self._current())
            self._collector.charge(started)

    def _close_backward(self) -> None:
        if self._backward is not None:
            self._backward.close()
            self._backward = None

    # ---- the end of a step -------------------------------------------------------------------------------

    def end_step(self) -> None:
        self._thread = get_ident()
        has_stepped = self._steps != self._steps_before
        if has_stepped:
            self._training_steps += 1
            self._steps_before = self._steps
            if self._missing.has_thawed:
                self._held.look_again()
                self._has_news = True
        if self._calls.is_on and has_stepped:
            self._answer = self._calls.answer()
            self._has_news = True
        if not self._idle.is_over:
            self._look_for_idleness()
        if has_stepped and (self._has_news or self._collector.probing):
            self._tell()

    def _look_for_idleness(self) -> None:
        fact = (
            self._idle.end(self._steps)
            if self._steps
            else self._idle.end_step(self._current(), self._collector.scalars)
        )
        if fact is not None:
            self._collector.fact(fact)

    def _tell(self) -> None:
        self._has_news = False
        members = self._current()
        for held in self._late:
            self._gradients.look(held.ids, members)
        self._late.clear()
        self._tell_optimizers(members)
        self._tell_gradients(members)
        if self._backward is not None:
            self._tell_unowned(members)

    def _tell_unowned(self, members: dict[int, Member]) -> None:
        for fact in self._unowned.news(self._training_steps, members, (held.ids for held in self._held)):
            self._collector.fact(fact)
        elsewhere = self._unowned.elsewhere()
        if elsewhere != self._told_elsewhere:
            self._told_elsewhere = elsewhere
            self._collector.fact(ElsewhereFact(elsewhere))
        if self._unowned.is_over(self._training_steps):
            self._close_backward()

    def _tell_optimizers(self, members: Mapping[int, Member]) -> None:
        self._held.hold(members, self._context.optimizers.known())
        missing = self._ripe(self._missing.of(members, self._held.ever), members)
        names = [member.name for member in missing]
        are_same = names == self._told_missing
        for held in self._held:
            is_ours = held.number != NOT_DESCRIBED and (missing or held.moves_any(members))
            if is_ours and not (held.is_told and are_same):
                self._collector.fact(held.fact(members, missing))
                held.is_told = True
        self._told_missing = names

    def _ripe(self, missing: list[Member], members: Mapping[int, Member]) -> list[Member]:
        """Return the missing parameters that should have been in an optimizer by now.

        A model with no trained part may be meant so: a teacher, or a model that is copied into now and then.
        It counts once it gets gradients, or once an optimizer holds tensors like its own.
        """
        if not missing or self._training_steps < STEPS_BEFORE_MISSING:
            return []
        trained = {member.model for key, member in members.items() if key in self._held.ever}
        rest = [member for member in missing if member.model not in trained]
        if rest and any(are_alike(rest, held.strangers(members)) for held in self._held):
            return missing
        if self._training_steps >= STEPS_BEFORE_MISSING_MODEL or self._all_given_have_stepped():
            trained |= {member.model for member in rest if member.tensor.grad is not None}
        return [member for member in missing if member.model in trained]

    def _all_given_have_stepped(self) -> bool:
        """Return whether the user has named optimizers and all of them have stepped."""
        named = self._context.optimizers.known()
        return self._are_given and all(self._held.of(each) is not None for each in named)

    def _tell_gradients(self, members: Mapping[int, Member]) -> None:
        if self._gradients.had_any:
            # A module without gradients is not called, or called under no_grad, or its output is ignored.
            # Watch its calls to tell these apart.
            self._calls.ask(self._gradients.without(members, looks=1), self._context.models)
        none = self._gradients.without(members)
        owners = {member.owner_name for member in none}
        calls = self._answer.among(owners)
        news = self._gradients.news(members, calls)
        if news is not None:
            self._collector.fact(news)
        ignored = (calls.called or ()) if self._gradients.had_any else ()
        if ignored != self._told_ignored:
            self._told_ignored = ignored
            self._collector.fact(IgnoredOutputsFact(ignored))
