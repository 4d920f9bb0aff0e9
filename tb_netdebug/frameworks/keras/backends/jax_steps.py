"""Wrap Keras's training step on JAX: what goes into it, and what comes out of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from keras.src.backend.config import is_nnx_enabled
from keras.src.backend.jax.trainer import JAXTrainer
from keras.src.distribution.distribution_lib import distribution

from tb_netdebug.frameworks.keras.authorship import is_all_of_keras
from tb_netdebug.frameworks.keras.backends.jax_program import (
    JaxLeftBehind,
    JaxProgram,
    Looking,
    MakeTap,
    State,
    StepValues,
    kind_of,
)
from tb_netdebug.frameworks.keras.backends.standins import BackendNetwork
from tb_netdebug.frameworks.keras.backends.tap import EagerTap
from tb_netdebug.frameworks.keras.layers import native
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

# A program is compiled per kind of batch; a smaller last batch of an epoch is not worth one.
MOST_KINDS = 8
PARTS = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")

OWN_STEP = (
    "the model has its own train_step, which JAX compiles as a whole; weights, updates and its results are "
    "recorded"
)
SEVERAL = (
    "steps_per_execution is more than 1, so Keras returns only after several batches; weights, their "
    "updates in that time and the running loss are recorded"
)


TRACED = (
    "JAX traced it before NetDebug was attached, and tracing it again would run your code again; weights, "
    "updates and its results are recorded. Watch the model before its first fit, or call compile() again"
)
CALLS_PYTHON = (
    "it calls back into Python, and that code must not run a second time; weights, updates and its results "
    "are recorded"
)


@dataclass(slots=True, eq=False)
class JaxStep:
    """A step that was started; its numbers may not have arrived yet."""

    batch: Any
    logs: Any
    wait_secs: float
    tap: EagerTap | None
    seen: StepValues | None
    is_first: bool


class JaxSteps:
    """Wraps a model's `train_function`, and keeps the last step that has run for `take`.

    `told` is called after each run with Keras's results, where nothing else reports the end of a batch.
    """

    def __init__(
        self,
        model: Any,
        collector: StepCollector,
        guard: Guard,
        refuse: Callable[[str, str], None],
        make_tap: MakeTap | None,
        before: Callable[[], None],
    ) -> None:
        self.model = model
        self.told: Callable[[Any], None] | None = None
        self.looks_always = False
        self._state: State | None = None
        self._collector = collector
        self._guard = guard
        self._refuse = refuse
        self._make_tap = make_tap
        self._before = before
        self._ordinary: Any = None
        self._program: JaxProgram | None = None
        self._kinds: set[Any] = set()
        self._last_kind: Any = None
        self._ran: JaxStep | None = None
        self._is_reset = True
        reason = self._hidden()
        self.is_running_mean = not reason
        if reason:
            self._make_tap = None
            refuse("the inside of the training step", reason)

    @property
    def makes_looks(self) -> bool:
        return self._make_tap is not None

    def take(self) -> JaxStep | None:
        """Return the step that has run since the last call; None if there is none."""
        ran, self._ran = self._ran, None
        return ran

    def tensors(self) -> Iterator[tuple[int, Any]]:
        """Yield the current training state by the id of its variable."""
        for some, tensors in zip(self._variables(), self._state or (), strict=False):
            yield from ((id(variable), tensor) for variable, tensor in zip(some, tensors, strict=False))

    def put(self, variable: Any, value: Any) -> None:
        """Replace a variable's value in the state that the last step returned."""
        if self._state is None:
            return
        trained, rest, of_optimizer, metrics = parts = [list(each) for each in self._state]
        for some, tensors in zip(self._variables(), parts, strict=False):
            for place, each in enumerate(some):
                if each is variable:
                    tensors[place] = value
        self._state = trained, rest, of_optimizer, metrics

    def _variables(self) -> tuple[list[Any], list[Any], list[Any]]:
        optimizer = self.model.optimizer
        of_optimizer = optimizer.variables if optimizer is not None else []
        return self.model.trainable_variables, self.model.non_trainable_variables, of_optimizer

    # ---- installing --------------------------------------------------------------------------------------

    def install(self) -> None:
        """Install the wrappers, bypassing Keras's own __setattr__, which tracks what belongs to a model."""
        # What another monitor, or the user, has put there stays.
        self.model.__dict__.setdefault("make_train_function", self._make_train_function)
        self.model.__dict__.setdefault("reset_metrics", self._reset_metrics)
        self.take_over()

    def remove(self) -> None:
        """Restore the model as it was."""
        for ours in (self._make_train_function, self._reset_metrics):
            name = ours.__name__.removeprefix("_")
            if self.model.__dict__.get(name) == ours:
                del self.model.__dict__[name]
        program, self._program = self._program, None
        if program is not None:
            program.make_tap = None
            for tap in program.taps.values():
                tap.move(BackendNetwork({}, bool, native, np.asarray), Guard(strict=False))
        if self.model.train_function == self._run and self._ordinary is not None:
            is_used = program is not None and program.has_run
            self.model.train_function = JaxLeftBehind(program) if program and is_used else self._ordinary
        self._ordinary = self._state = None

    def take_over(self) -> None:
        """Wrap whatever train function Keras would call now."""
        current = self.model.train_function
        if current is None or current == self._run:
            return
        self._ordinary = current
        self._program = self._program_for(current) if self._is_one_program() else None
        self.model.train_function = self._run

    def _is_one_program(self) -> bool:
        """Return whether Keras compiles the whole step with JAX and distributes nothing over devices."""
        model = self.model
        is_plain = type(model).make_train_function is JAXTrainer.make_train_function and not is_nnx_enabled()
        is_whole = (
            model.jit_compile and not model.run_eagerly and getattr(model, "steps_per_execution", 1) == 1
        )
        return self._make_tap is not None and is_plain and is_whole and distribution() is None

    def _program_for(self, current: Any) -> JaxProgram | None:
        """Return a new program, or the one traced for another monitor; None if tracing is not allowed."""
        make_tap = self._make_tap
        assert make_tap is not None
        if isinstance(current, JaxLeftBehind):
            network = make_tap(bool).network
            for tap in current.program.taps.values():
                tap.move(network, self._guard)
            current.program.make_tap = make_tap
            return current.program
        if traced_before(current) and not is_all_of_keras(self.model):
            self._make_tap = None
            self._refuse("the inside of the training step", TRACED)
            return None
        return JaxProgram(self.model, make_tap)

    def _make_train_function(self, force: bool = False) -> Any:
        if force and self.model.train_function == self._run:
            self.model.train_function = None
        # The method of the class: the one of the instance is this very function.
        type(self.model).make_train_function(self.model, force=force)
        self.take_over()
        return self.model.train_function

    def _reset_metrics(self) -> None:
        self._is_reset = True
        type(self.model).reset_metrics(self.model)

    def _hidden(self) -> str:
        """Return why this step cannot be looked into; "" if it can."""
        if type(self.model).train_step is not JAXTrainer.train_step:
            return OWN_STEP
        return SEVERAL if getattr(self.model, "steps_per_execution", 1) > 1 else ""

    # ---- a step ------------------------------------------------------------------------------------------

    def _run(self, state: State, iterator: Any) -> Any:
        asked = now()
        batch = next(iterator)  # a StopIteration is for Keras to handle
        wait_secs = now() - asked
        tap, seen = (None, None) if self._guard.is_off else self._look(state, batch)
        if self._program is not None:
            logs, after = self._program.step(state, batch)
            self._program.has_run = True
        else:
            with self._looking(state) as looking:
                # The batch was taken above: put it back in front.
                logs, after = self._ordinary(state, itertools.chain([batch], iterator))
            tap, seen = (None, None) if looking is None else self._seen_by(looking)
        self._state = after
        self._ran = JaxStep(batch, logs, wait_secs, tap, seen, self._is_reset)
        self._is_reset = False
        if self._collector.first_step is not None:
            self._collector.first_step.updated(id(self), is_fit=True)
        if self.told is not None:
            try:
                self.told(logs)
            except BaseException:
                self._hand_over(self._state or after)
                raise
        return logs, self._state or after

    def _hand_over(self, state: State) -> None:
        """Give the new state to the model: Keras holds the old one, which was donated to the step."""
        self.model._jax_state = dict(zip(PARTS, state, strict=True))
        self.model._jax_state_synced = False
        self.model.jax_state_sync()

    def _look(self, state: State, batch: Any) -> tuple[EagerTap | None, StepValues | None]:
        """Look, in a sampled step, at what the step is going to compute."""
        kind, before = kind_of(batch), self._last_kind
        self._last_kind = kind
        if not (self._collector.sampling or self.looks_always):
            return None, None
        started = now()
        self._state = state
        try:
            self._before()
            program = self._program
            if self._make_tap is None or program is None or not self._is_worth_it(kind, before):
                return None, None
            is_new = kind not in self._kinds
            self._kinds.add(kind)
            found = program.look(state, batch)
            if is_new:
                started = now()  # do not charge the compilation, which happens once
                if program.calls_python():
                    self._refuse("the inside of the training step", CALLS_PYTHON)
            return (None, None) if found is None else found
        except Exception as error:
            if self._program is not None and self._program.raised is error:
                raise
            self._make_tap = None
            self._guard.fault("looking into a training step", error)
            return None, None
        finally:
            self._collector.charge(started)

    def _is_worth_it(self, kind: Any, before: Any) -> bool:
        if kind in self._kinds or not self._kinds:
            return True
        return bool(kind == before) and len(self._kinds) < MOST_KINDS

    @contextmanager
    def _looking(self, state: State) -> Iterator[Looking | None]:
        """Listen to a sampled step that runs eagerly."""
        wants = self._collector.sampling or self.looks_always
        if not (wants and self._make_tap is not None and self.model.run_eagerly) or self._guard.is_off:
            yield None
            return
        looking = Looking(self.model, self._make_tap, state)
        with looking:
            yield looking

    def _seen_by(self, looking: Looking) -> tuple[EagerTap | None, StepValues | None]:
        shown = looking.shown()
        return (None, None) if shown is None else (looking.tap, StepValues(**shown))


def traced_before(function: Any) -> bool:
    """Return whether JAX has traced what one of Keras's train functions calls."""
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    return any(each._cache_size() for each in cells if hasattr(each, "_cache_size"))
