"""Keras's training step in a program of our own, which gives back tensors that are there anyway.

TensorFlow traces it once, in the first step, from the model's own `train_step`, in place of Keras's own
function. In sampled steps more of it is taken than in others; both compute the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tb_netdebug.core.records.scalar_names import GRAPH_TRACED
from tb_netdebug.frameworks.keras.authorship import is_all_of_keras
from tb_netdebug.frameworks.keras.calls import heard, listening
from tb_netdebug.frameworks.keras.differences import crosses
from tb_netdebug.frameworks.keras.following import Following
from tb_netdebug.frameworks.keras.layers import Network
from tb_netdebug.frameworks.keras.program import LeftBehind, Program, Shown, traced_before
from tb_netdebug.frameworks.keras.tap import StepTap
from tb_netdebug.frameworks.keras.traced import TracedRun, Wanted, laid_out
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard

COMPILED = (
    "with jit_compile=True TensorFlow leaves no place to look into the training step; weights, updates and "
    "the loss are recorded"
)
SEVERAL = (
    "steps_per_execution is more than 1, so that Keras comes back after several batches only; weights, their "
    "updates in that time and the running loss are recorded"
)
OVERRIDDEN = (
    "the model has a make_train_function of its own; weights, updates and the running loss are recorded"
)
TRACED = (
    "TensorFlow traced it before NetDebug came, and to trace it again would run your code again; weights, "
    "updates and the running loss are recorded. Watch the model before its first fit, or call compile() again"
)
MAKES_VARIABLES = (
    "it makes variables out of its own tensors; weights, updates and the running loss are recorded. Make "
    "them "
    "in __init__ or build"
)
REPLICAS = "they are those of the first replica; the other replicas are not looked at"
IN_GRAPH = (
    "in a compiled graph looking at each would change its last bits; the likeliest one between two layers is "
    "named, and compile(run_eagerly=True) has every operation looked at, with its line"
)
# The first runs of a version are slow: TensorFlow traces, and makes its graph better.
RUNS_UNTIMED = 4
SMOOTHING = 0.1
# Tracing takes longer; of shorter steps it is not asked whether they were traced.
TRACING_SECS = 0.02


@dataclass(eq=False)
class TrainSteps:
    """Takes the place of a model's `train_function`; `last` is what its last run has shown.

    `told` is called behind each run with Keras's results, where nobody else tells that a batch is over.
    `shows_all`: the full version in every step.
    """

    model: Any
    network: Network
    collector: StepCollector
    guard: Guard
    refuse: Callable[[str, str], None]
    wants_layers: bool
    wants_gradients: bool
    always_flags: bool = False
    follows: bool = False
    shows_all: bool = False
    last: TracedRun | None = None
    runs: int = 0
    is_running: bool = False
    is_blind: bool = False
    told: Callable[[Any], None] | None = None
    _ordinary: Any = None
    _program: Program | None = None
    _has_run_light: bool = False
    _light_secs: float = 0.0
    _tracings: int = 0

    def install(self) -> None:
        """From now on every `fit` and `train_on_batch` goes through here."""
        if "make_train_function" not in self.model.__dict__:
            # past Keras's own __setattr__, which keeps a list of what belongs to a model
            self.model.__dict__["make_train_function"] = self._make_train_function
        self.take_over()

    def remove(self) -> None:
        """The model is as it was, but that its step stays as it was traced: nothing of it knows of us."""
        if self.model.__dict__.get("make_train_function") == self._make_train_function:
            del self.model.__dict__["make_train_function"]
        program, self._program = self._program, None
        if program is not None:
            program.watcher = None
            for trace in program.traces.values():
                trace.move(Network({}, bool), Guard(strict=False))
        if self.model.train_function == self._run and self._ordinary is not None:
            is_used = program is not None and program.has_run and not program.is_eager
            self.model.train_function = LeftBehind(program) if program and is_used else self._ordinary
        self._ordinary = None

    def take_over(self) -> None:
        """Whatever Keras would call now is called through us."""
        current = self.model.train_function
        if current is None or current == self._run:
            return
        self._ordinary = current
        self._tracings = 0
        self._has_run_light = False
        self._explain()
        self._program = None if self.is_blind else self._program_for(current)
        self.model.train_function = self._run

    def _program_for(self, current: Any) -> Program:
        """A new one, or the one that was traced for another monitor."""
        if not isinstance(current, LeftBehind):
            program = Program(self.model, is_eager=self.is_eager)
        else:
            program = current.program
            for trace in program.traces.values():
                trace.move(self.network, self.guard)
            self._tracings = program.tracing_count()
        program.watcher = self
        return program

    def take(self) -> TracedRun | None:
        """What the last run has shown, once."""
        ran, self.last, self.runs = self.last, None, 0
        return ran

    @property
    def is_eager(self) -> bool:
        return bool(self.model.run_eagerly)

    def tracing_count(self) -> int:
        """How often TensorFlow has traced something of ours."""
        return 0 if self._program is None else self._program.tracing_count()

    # ---- a step ------------------------------------------------------------------------------------------

    def _make_train_function(self, force: bool = False) -> Any:
        if force and self.model.train_function == self._run:
            self.model.train_function = None
        type(self.model).make_train_function(self.model, force=force)
        self.take_over()
        return self.model.train_function

    def _run(self, iterator: Any) -> Any:
        self.last = None
        self.is_running = True
        full, started = self._wants_full(), now()
        try:
            if self._program is None:
                outputs = self._ordinary(iterator)
            else:
                outputs = self._run_ours(self._program, iterator, full=full)
        finally:
            self.is_running = False
            self.runs += 1
            secs = now() - started
            self._charge(secs, full=full)
            if secs >= TRACING_SECS:
                self._note_tracing()
        if self.collector.first_step is not None:
            self.collector.first_step.updated(id(self), is_fit=True)
        if self.told is not None:
            self.told(outputs)
        return outputs

    def _wants_full(self) -> bool:
        """In the first steps always: what probes want to see costs nothing there that anybody would notice.

        But the light version has its turn as soon as a step need not be sampled, so that it is traced then.
        """
        collector = self.collector
        if collector.sampling or self.is_eager or self.shows_all:
            return True
        return collector.probing and self._has_run_light

    def _run_ours(self, program: Program, iterator: Any, *, full: bool) -> Any:
        """When the guard is off, too: Keras's own function would have to be traced, which runs the
        user's code."""
        full = full or not program.has_run or program.keeps_state
        self._has_run_light = self._has_run_light or not full
        outputs, shown = program.run(iterator, full=full)
        for number, flat in shown.items():
            trace = program.traces.get(number)
            self.last = None if trace is None else TracedRun(trace, flat, trace.places(full=full))
        if self.is_eager:
            program.traces.clear()
        return outputs

    def _charge(self, secs: float, *, full: bool) -> None:
        """What the full version takes longer than the light one is our doing."""
        if self.last is None or self.collector.step < RUNS_UNTIMED:
            return
        if not full:
            self._light_secs += (secs - self._light_secs) * (SMOOTHING if self._light_secs else 1.0)
        elif self._light_secs:
            self.collector.spent_secs += min(max(secs - self._light_secs, 0.0), secs / 2)

    def _note_tracing(self) -> None:
        """A new `compile`, or a batch of another shape, makes TensorFlow trace anew: once, however long."""
        before, self._tracings = self._tracings, self.tracing_count()
        if self._tracings > before:
            self.collector.scalars[GRAPH_TRACED] = 1.0

    def _explain(self) -> None:
        """What is not seen of such a model, once."""
        reason = ""
        if self.model.jit_compile:
            reason = COMPILED
        elif self.model.steps_per_execution > 1:
            reason = SEVERAL
        elif type(self.model).make_train_function is not TensorFlowTrainer.make_train_function:
            reason = OVERRIDDEN
        elif not self.is_eager and self._was_traced() and not is_all_of_keras(self.model):
            reason = TRACED
        self.is_blind = bool(reason)
        if reason:
            self.refuse("the inside of the training step", reason)
        elif self.model.distribute_strategy.num_replicas_in_sync > 1:
            self.refuse("a part of the activations and gradients", REPLICAS)
        if self.follows and not self.is_eager and not reason:
            self.refuse("every single operation", IN_GRAPH)

    def _was_traced(self) -> bool:
        return not isinstance(self._ordinary, LeftBehind) and traced_before(self._ordinary) > 0

    # ---- what is traced ----------------------------------------------------------------------------------

    def watched_step(self, data: Any, number: str) -> tuple[Any, Shown]:
        """The model's own step, and what it has shown; runs once for each replica. An error is the user's."""
        if self.is_blind:
            return self.model.train_step(data), {"": []}
        tap = StepTap(self.network, self.guard, wants_layers=self.wants_layers)
        # in a graph this costs nothing but a little time while it is traced
        is_followed = self.follows or not self.is_eager
        following = Following(self.network, self.guard) if is_followed else None
        with ExitStack() as stack:
            for listener in (tap, following):
                if listener is not None:
                    stack.enter_context(listening(listener))
            stack.enter_context(heard(self.model, tap.computed))
            made = stack.enter_context(variables_made())
            if following is not None:
                stack.enter_context(following)
            outputs = self.model.train_step(data)
        if made:  # TensorFlow chooses between two traces in a graph, and both have to give back the same
            self.is_blind = True
            self.refuse("the inside of the training step", MAKES_VARIABLES)
            return outputs, {"": []}
        try:
            return outputs, {number: self._shown(tap, following, data, outputs, number)}
        except Exception as error:
            self.guard.fault("looking at the training step", error)
            self.is_blind = True
            return outputs, {"": []}

    def _shown(
        self, tap: StepTap, following: Following | None, data: Any, outputs: Any, number: str
    ) -> list[Any]:
        """Tensors of this step; `Program.traces` says where each stands."""
        tap.reported(outputs)
        tap.compares_all = crosses(data, tap.is_made)
        if not self.network.is_complete():
            self.network.refresh()
        if tap.hidden and not self.is_eager:
            self.refuse("a part of the model", "it runs in a loop or function inside of TensorFlow's graph")
        wanted = Wanted(self.wants_gradients, self.always_flags, self.is_eager)
        replicas = self.model.distribute_strategy.num_replicas_in_sync
        trace, flat = laid_out(tap, data, wanted, replicas, following)
        if not tf.executing_eagerly() and any(each.graph is not tap.graph for each in flat):
            raise ValueError("a tensor of another graph")
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        if self._program is not None and (not isinstance(replica, int) or replica == 0):
            self._program.traces[number] = trace
        return flat


@contextmanager
def variables_made() -> Iterator[list[str]]:
    """The names of variables that begin with a value out of the graph itself, made inside of this block.

    Others, such as an optimizer's in its first step, are made before the graph runs for the first time.
    """
    found: list[str] = []

    def creator(make: Any, **given: Any) -> Any:
        if not tf.executing_eagerly() and hasattr(given.get("initial_value"), "graph"):
            found.append(str(given.get("name")))
        return make(**given)

    with tf.variable_creator_scope(creator):
        yield found
