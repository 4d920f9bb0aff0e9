"""Run Keras's training step in a program of our own, which also returns tensors that exist anyway.

TensorFlow traces the program once, in the first step, from the model's own `train_step`; the program replaces
Keras's own function. Sampled steps take more of these tensors than others; both versions compute the same to
the last bit.
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
    "with jit_compile=True, TensorFlow does not let NetDebug read the training step; weights, updates and "
    "the loss are recorded"
)
SEVERAL = (
    "steps_per_execution is more than 1, so Keras returns only after several batches; weights, their "
    "updates in that time and the running loss are recorded"
)
OVERRIDDEN = "the model has its own make_train_function; weights, updates and the running loss are recorded"
TRACED = (
    "TensorFlow traced it before NetDebug was attached, and tracing it again would run your code again; "
    "weights, updates and the running loss are recorded. Watch the model before its first fit, or call "
    "compile() again"
)
MAKES_VARIABLES = (
    "it creates variables from its own tensors; weights, updates and the running loss are recorded. Create "
    "them in __init__ or build"
)
REPLICAS = "they are those of the first replica; the other replicas are not recorded"
IN_GRAPH = (
    "in a compiled graph, reading each one would change its last bits; the likeliest operation between two "
    "layers is named. With compile(run_eagerly=True), every operation is checked, with its line"
)
# The first runs of a version are slow: TensorFlow traces and optimizes its graph.
RUNS_UNTIMED = 4
SMOOTHING = 0.1
# Tracing takes longer; shorter steps are not checked for it.
TRACING_SECS = 0.02


@dataclass(eq=False)
class TrainSteps:
    """Takes the place of a model's `train_function`; `last` is what its last run has shown.

    `told` is called after each run with Keras's results, where nothing else reports the end of a batch.
    `shows_all` uses the full version in every step.
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
        """Make every `fit` and `train_on_batch` from now on go through here."""
        if "make_train_function" not in self.model.__dict__:
            # Bypass Keras's own __setattr__, which tracks what belongs to a model.
            self.model.__dict__["make_train_function"] = self._make_train_function
        self.take_over()

    def remove(self) -> None:
        """Restore the model, except that its step stays as traced; nothing in it refers to us."""
        if self.model.__dict__.get("make_train_function") == self._make_train_function:
            del self.model.__dict__["make_train_function"]
        program, self._program = self._program, None
        if program is not None:
            program.watcher = None
            # An empty network and a fresh guard: the traces must not keep this monitor alive.
            for trace in program.traces.values():
                trace.move(Network({}, bool), Guard(strict=False))
        if self.model.train_function == self._run and self._ordinary is not None:
            is_used = program is not None and program.has_run and not program.is_eager
            self.model.train_function = LeftBehind(program) if program and is_used else self._ordinary
        self._ordinary = None

    def take_over(self) -> None:
        """Wrap whatever train function Keras would call now."""
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
        """Return a new program, or the one that was traced for another monitor."""
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
        """Return what the last run has shown, and forget it."""
        ran, self.last, self.runs = self.last, None, 0
        return ran

    @property
    def is_eager(self) -> bool:
        return bool(self.model.run_eagerly)

    def tracing_count(self) -> int:
        """Return how often TensorFlow has traced our functions."""
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
        """Return whether to use the full version; always in the first steps, where nobody notices its cost.

        The light version runs as soon as a step need not be sampled, so that it is traced then.
        """
        collector = self.collector
        if collector.sampling or self.is_eager or self.shows_all:
            return True
        return collector.probing and self._has_run_light

    def _run_ours(self, program: Program, iterator: Any, *, full: bool) -> Any:
        """Run a batch in our program, even when the guard is off.

        Keras's own function would have to be traced, and tracing runs the user's code.
        """
        full = full or not program.has_run or program.keeps_state
        self._has_run_light = self._has_run_light or not full
        outputs, shown = program.run(iterator, full=full)
        for number, flat in shown.items():
            trace = program.traces.get(number)
            self.last = None if trace is None else TracedRun(trace, flat, trace.places(full=full))
        if self.is_eager:
            # An eager step makes a new trace each time.
            program.traces.clear()
        return outputs

    def _charge(self, secs: float, *, full: bool) -> None:
        """Charge to monitoring what the full version takes longer than the light one."""
        if self.last is None or self.collector.step < RUNS_UNTIMED:
            return
        if not full:
            self._light_secs += (secs - self._light_secs) * (SMOOTHING if self._light_secs else 1.0)
        elif self._light_secs:
            self.collector.spent_secs += min(max(secs - self._light_secs, 0.0), secs / 2)

    def _note_tracing(self) -> None:
        """Note that TensorFlow traced anew.

        A new `compile` or a batch of another shape causes that: once, however long it takes.
        """
        before, self._tracings = self._tracings, self.tracing_count()
        if self._tracings > before:
            self.collector.scalars[GRAPH_TRACED] = 1.0

    def _explain(self) -> None:
        """Report, once, what cannot be seen of this model."""
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
        """Return the results of the model's own step, and what it has shown; runs once per replica.

        An exception from the model's step is the user's and passes.
        """
        if self.is_blind:
            return self.model.train_step(data), {"": []}
        tap = StepTap(self.network, self.guard, wants_layers=self.wants_layers)
        # In a graph, following costs nothing but a little time while it is traced.
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
        # TensorFlow then picks one of two traces inside a graph, and both must return the same structure.
        if made:
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
        """Return the tensors that this step shows; `Program.traces` says where each stands."""
        tap.reported(outputs)
        tap.compares_all = crosses(data, tap.is_made)
        if not self.network.is_complete():
            self.network.refresh()
        if tap.hidden and not self.is_eager:
            self.refuse("a part of the model", "it runs in a loop or function inside TensorFlow's graph")
        wanted = Wanted(self.wants_gradients, self.always_flags, self.is_eager)
        replicas = self.model.distribute_strategy.num_replicas_in_sync
        trace, flat = laid_out(tap, data, wanted, replicas, following)
        if not tf.executing_eagerly() and any(each.graph is not tap.graph for each in flat):
            # A tensor of an inner graph cannot be returned.
            raise ValueError("a tensor of another graph")
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        # Only the first replica's trace is kept: its tensors are the ones that are returned.
        if self._program is not None and (not isinstance(replica, int) or replica == 0):
            self._program.traces[number] = trace
        return flat


@contextmanager
def variables_made() -> Iterator[list[str]]:
    """Collect the names of variables created in this block whose initial value is a tensor of the graph.

    Others, such as an optimizer's in its first step, are created before the graph first runs.
    """
    found: list[str] = []

    def creator(make: Any, **given: Any) -> Any:
        if not tf.executing_eagerly() and hasattr(given.get("initial_value"), "graph"):
            found.append(str(given.get("name")))
        return make(**given)

    with tf.variable_creator_scope(creator):
        yield found
