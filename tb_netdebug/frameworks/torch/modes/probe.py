"""The probe of modes: whether dropout and batch norm are in train or evaluation mode when called."""

from __future__ import annotations

import weakref
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from tb_netdebug.core.records.facts import ModesFact
from tb_netdebug.core.records.scalar_names import (
    EVAL_MODULES,
    EVALUATIONS,
    MODE_MODULES,
    TRAIN_MODE_EVALUATIONS,
)
from tb_netdebug.frameworks.torch.batches.contents import is_on_host
from tb_netdebug.frameworks.torch.batches.entries import entry_of
from tb_netdebug.frameworks.torch.modes.functional_dropout import FunctionalDropout
from tb_netdebug.frameworks.torch.modes.switches import Switch, switches_of
from tb_netdebug.frameworks.torch.probe import ProbeContext

current_backward = torch._C._current_graph_task_id
Tensor = torch.Tensor

MOST_NAMES = 64


class WatchedModel:
    """A watched model, and what its calls in the current step were like."""

    __slots__ = (
        "all_in_eval", "calls", "in_eval", "looks", "model", "prefix", "switches", "trained_on",
        "was_training",
    )  # fmt: skip

    def __init__(self, prefix: str, model: nn.Module) -> None:
        self.prefix = prefix
        self.model = model
        self.switches: list[Switch] = []
        self.was_training: bool | None = None
        self.trained_on: weakref.ref[Tensor] | None = None
        self.begin()

    def begin(self) -> None:
        """Begin a step."""
        self.calls = self.looks = 0  # counts of calls that record gradients
        self.in_eval: list[Switch] = []
        self.all_in_eval = True  # whether the model itself was in evaluation mode in all of these calls

    def look(self) -> None:
        """Note the modes at a call. A switch is in evaluation mode if it was so in all calls of the step.

        Evaluations are not always made without gradients, and adversarial training may attack the model in
        evaluation mode first.
        """
        self.all_in_eval = self.all_in_eval and not self.model.training
        among = self.in_eval if self.looks else self.switches
        self.in_eval = [switch for switch in among if not switch.module.training]
        self.looks += 1

    @property
    def was_seen(self) -> bool:
        """Whether all of the step's calls were looked at."""
        return 0 < self.looks == self.calls


class ModeProbe:
    """Watches the modes at calls of the outermost modules (see `probes.Probe`).

    Calls that record gradients are looked at in probed steps, and in any step in which the model's mode
    differs from that of the call before. Calls without gradients are evaluations, unless their input is that
    of the last training call; they are counted in every step.
    """

    def __init__(self, context: ProbeContext) -> None:
        self._context = context
        self._collector = context.collector
        self._guard = context.guard
        self._roots = [WatchedModel(prefix, model) for prefix, model in context.models.items()]
        self._generation = -1
        self._steps_of_optimizers = 0
        self._evaluations = self._evaluations_in_train = 0  # in this step
        self._in_a_row = self._most_in_a_row = 0
        self._in_train: dict[str, None] = {}  # names of switches, in the last evaluation that had any
        self._root_trains = False  # the model itself was in train mode then
        self._dropout = FunctionalDropout()
        self._told: ModesFact | None = None
        self._now = ModesFact(root_eval=False)
        for root in self._roots:
            context.calls.listen(
                entry_of(root.model),
                before=partial(self._watch, root),
                evaluating=partial(self._count_evaluation, root),
            )

    def close(self) -> None:
        self._dropout.close()

    def end_step(self) -> None:
        stepped = self._context.optimizers.steps != self._steps_of_optimizers
        self._steps_of_optimizers = self._context.optimizers.steps
        seen = [root for root in self._roots if root.looks and root.was_seen]
        if seen:
            self._put_training([root for root in seen if self._is_trained(root, stepped)])
        if self._evaluations:
            self._put_evaluations()
            self._dropout.close()
        if seen or self._evaluations_in_train or self._dropout.places:
            self._tell()
        self._evaluations = self._evaluations_in_train = 0
        for root in self._roots:
            if root.looks:
                root.begin()
            else:
                root.calls = 0  # all that has changed

    # ---- calls -------------------------------------------------------------------------------------------

    def _watch(self, root: WatchedModel, module: nn.Module, args: Any, kwargs: Any) -> None:
        root.calls += 1
        self._in_a_row = 0
        given = args[0] if args else next(iter(kwargs.values()), None)
        root.trained_on = weakref.ref(given) if type(given) is Tensor else None
        # After one look, all further calls of the step have to be looked at, or `was_seen` is False.
        if root.looks or root.model.training is not root.was_training or self._collector.probing:
            self._look(root)

    def _look(self, root: WatchedModel) -> None:
        try:
            if current_backward() != -1:  # recomputed by activation checkpointing
                root.calls -= 1
                return
            root.was_training = root.model.training
            self._find_switches()
            root.look()
        except Exception as error:
            self._guard.fault("looking at train and evaluation mode", error)

    def _count_evaluation(self, root: WatchedModel, module: nn.Module, args: Any, kwargs: Any) -> None:
        try:
            if not is_trained_on(root, args, kwargs):
                self._find_switches()
                self._evaluations += 1
                self._in_a_row += 1
                self._most_in_a_row = max(self._most_in_a_row, self._in_a_row)
                self._look_at_evaluation(root)
        except Exception as error:
            self._guard.fault("looking at an evaluation", error)

    def _look_at_evaluation(self, root: WatchedModel) -> None:
        if not root.model.training:
            self._dropout.listen(root.model)
        for switch in root.switches:
            if switch.module.training and not switch.is_recalibrating:
                break
        else:
            return
        self._evaluations_in_train += 1
        if self._evaluations_in_train == 1:
            self._in_train = {each.name: None for each in root.switches if each.module.training}
            self._root_trains = root.model.training

    def _find_switches(self) -> None:
        parameters = self._context.parameters
        if not parameters.is_stale and self._generation == parameters.changes:
            return
        parameters.current()
        self._generation = parameters.changes
        for root in self._roots:
            root.switches = switches_of(root.prefix, root.model, self._context.settings.wants)

    # ---- the end of a step -------------------------------------------------------------------------------

    def _is_trained(self, root: WatchedModel, stepped: bool) -> bool:
        """Return whether a backward pass or an optimizer step followed the calls of this step."""
        if any(each.grad is not None for each in root.model.parameters()):
            return True
        own = {id(each) for each in root.model.parameters()} if stepped else set()
        return stepped and any(
            id(moved) in own
            for optimizer in self._context.optimizers.known()
            for group in optimizer.param_groups
            for moved in group["params"]
        )

    def _put_training(self, trained: list[WatchedModel]) -> None:
        """Record the modes of the models that were trained in this step."""
        if not trained:
            return
        switches = [switch for root in trained for switch in root.switches]
        in_eval = [switch for root in trained for switch in root.in_eval]
        # Freezing a part puts it into evaluation mode on purpose.
        frozen = {switch.name for switch in in_eval if switch.is_frozen}
        counted = [switch.name for switch in in_eval if switch.name not in frozen]
        self._collector.scalars[MODE_MODULES] = float(len(switches) - len(frozen))
        self._collector.scalars[EVAL_MODULES] = float(len(counted))
        self._now = ModesFact(
            eval=tuple(counted[:MOST_NAMES]),
            total=len(switches) - len(frozen),
            root_eval=any(root.all_in_eval for root in trained),
            frozen=tuple(sorted(frozen)[:MOST_NAMES]),
        )

    def _put_evaluations(self) -> None:
        self._collector.scalars[EVALUATIONS] = float(self._evaluations)
        self._collector.scalars[TRAIN_MODE_EVALUATIONS] = float(self._evaluations_in_train)

    def _tell(self) -> None:
        fact = replace(
            self._now,
            evaluating_in_train=tuple(self._in_train)[:MOST_NAMES],
            evaluating_root_train=self._root_trains,
            evaluation_calls_in_a_row=self._most_in_a_row,
            functional_dropout=tuple(self._dropout.places),
        )
        if fact != self._told:
            self._told = fact
            self._collector.fact(fact)


def is_trained_on(root: WatchedModel, args: Any, kwargs: Any) -> bool:
    """Return whether a call's input is the batch of the last training call, or a view of it."""
    known = root.trained_on() if root.trained_on is not None else None
    given = args[0] if args else next(iter(kwargs.values()), None)
    if known is None or type(given) is not Tensor:
        return False
    if given is known:
        return True
    if given.shape != known.shape or given.device != known.device:
        return False
    return is_on_host(given) and is_on_host(known) and given.data_ptr() == known.data_ptr()
