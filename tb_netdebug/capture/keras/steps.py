"""Keras's training step in versions of our own: a light one, and one that shows every layer.

Both are traced by TensorFlow once, in the first two steps, from the model's own `train_step`. They compute
the same to the last bit; what they show beside it are tensors that are there anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from tb_netdebug.capture.clock import now
from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.keras.again import Again
from tb_netdebug.capture.keras.calls import heard, listening
from tb_netdebug.capture.keras.differences import crosses
from tb_netdebug.capture.keras.following import Following
from tb_netdebug.capture.keras.layers import Network
from tb_netdebug.capture.keras.operations import Followed
from tb_netdebug.capture.keras.tap import Tap
from tb_netdebug.capture.keras.traced import Ran, Trace, Wanted, laid_out
from tb_netdebug.capture.keras.version import Shown, Version

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
REPLICAS = "they are those of the first replica; the other replicas are not looked at"
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
    collector: Collector
    guard: Guard
    refuse: Callable[[str, str], None]
    wants_layers: bool
    wants_gradients: bool
    always_flags: bool = False
    follows: bool = False
    shows_all: bool = False
    last: Ran | None = None
    runs: int = 0
    is_running: bool = False
    is_blind: bool = False
    told: Callable[[Any], None] | None = None
    _ordinary: Any = None
    _versions: dict[bool, Version] = field(default_factory=dict)
    _traces: dict[str, Trace] = field(default_factory=dict)
    _light_secs: float = 0.0
    _tracings: int = 0
    _again: Again | None = None

    def install(self) -> None:
        """From now on every `fit` and `train_on_batch` goes through here."""
        if "make_train_function" not in self.model.__dict__:
            # past Keras's own __setattr__, which keeps a list of what belongs to a model
            self.model.__dict__["make_train_function"] = self._make_train_function
        self.take_over()

    def remove(self) -> None:
        """The model is as it was."""
        if self.model.__dict__.get("make_train_function") == self._make_train_function:
            del self.model.__dict__["make_train_function"]
        if self.model.train_function == self._run and self._ordinary is not None:
            self.model.train_function = self._ordinary
        self._ordinary = self._again = None
        self._versions.clear()
        self._traces.clear()

    def take_over(self) -> None:
        """Whatever Keras would call now is called through us."""
        current = self.model.train_function
        if current is None or current == self._run:
            return
        self._ordinary = current
        self._versions.clear()
        self._traces.clear()
        self._tracings = 0
        self.model.train_function = self._run
        self._explain()

    def take(self) -> Ran | None:
        """What the last run has shown, once."""
        ran, self.last, self.runs = self.last, None, 0
        return ran

    def followed(self, ran: Ran) -> Followed | None:
        """Which operation has made a bad value, in the step that has just run; None when nobody followed."""
        if ran.trace.following is not None:
            return ran.trace.following.blamed(ran.tap)
        return None if self._again is None else self._again.explained()

    @property
    def is_eager(self) -> bool:
        return bool(self.model.run_eagerly)

    def tracing_count(self) -> int:
        """How often TensorFlow has traced our versions."""
        return sum(version.tracing_count() for version in self._versions.values())

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
            if self.guard.is_off or self.is_blind:
                outputs = self._ordinary(iterator)
            else:
                outputs = self._run_ours(iterator, full=full)
        finally:
            self.is_running = False
            self.runs += 1
            secs = now() - started
            self._charge(secs, full=full)
            if secs >= TRACING_SECS:
                self._note_tracing()
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
        return collector.probing and False in self._versions

    def _run_ours(self, iterator: Any, *, full: bool) -> Any:
        version = self._versions.get(full)
        if version is None:
            version = self._versions[full] = self._version(full=full)
        try:
            outputs, shown = self._called(version, iterator)
        except (StopIteration, tf.errors.OpError):
            raise
        except Exception as error:
            if self.is_eager or version.has_run:
                raise
            outputs = self._ordinary(iterator)  # raises the same again when the mistake is the user's
            self.guard.fault("tracing the training step", error)
            self.is_blind = True
            return outputs
        for number, flat in shown.items():
            trace = self._traces.get(f"{full}{number}")
            self.last = None if trace is None else Ran(trace, flat)
        if self.is_eager:
            self._traces.clear()
        return outputs

    def _called(self, version: Version, iterator: Any) -> tuple[Any, Shown]:
        return version(iterator) if self._again is None else self._again.run(version, iterator)

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
            self.collector.scalars["probe/traced"] = 1.0

    def _explain(self) -> None:
        """What is not seen of such a model, once."""
        reason = ""
        if self.model.jit_compile:
            reason = COMPILED
        elif self.model.steps_per_execution > 1:
            reason = SEVERAL
        elif type(self.model).make_train_function is not TensorFlowTrainer.make_train_function:
            reason = OVERRIDDEN
        self.is_blind = bool(reason)
        if reason:
            self.refuse("the inside of the training step", reason)
        elif self.model.distribute_strategy.num_replicas_in_sync > 1:
            self.refuse("a part of the activations and gradients", REPLICAS)
        is_alone = self.model.distribute_strategy.num_replicas_in_sync == 1
        if self.follows and is_alone and not self.is_eager and not reason:
            self._again = Again(self.model, self.network, self.guard, self.refuse)

    # ---- what is traced ----------------------------------------------------------------------------------

    def _version(self, *, full: bool) -> Version:
        wanted = Wanted(full, self.wants_gradients, self.always_flags, self.is_eager)

        def step(number: str, data: Any) -> tuple[Any, Shown]:
            return self.watched_step(data, wanted, number)

        return Version(self.model, step, is_eager=self.is_eager)

    def watched_step(self, data: Any, wanted: Wanted, number: str) -> tuple[Any, Shown]:
        """The model's own step, and what it has shown; runs once for each replica."""
        tap = Tap(self.network, self.guard, wants_layers=self.wants_layers)
        following = Following(self.network, self.guard) if self.follows and self.is_eager else None
        with ExitStack() as stack:
            for listener in (tap, following):
                if listener is not None:
                    stack.enter_context(listening(listener))
            stack.enter_context(heard(self.model, tap.computed))
            if following is not None:
                stack.enter_context(following)
            outputs = self.model.train_step(data)
        tap.reported(outputs)
        tap.compares_all = crosses(data, tap.is_made)
        if not self.network.is_complete():
            self.network.refresh()
        if tap.hidden and not self.is_eager:
            self.refuse("a part of the model", "it runs in a loop or function inside of TensorFlow's graph")
        trace, flat = laid_out(tap, data, wanted, self.model.distribute_strategy.num_replicas_in_sync)
        trace.following = following
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        if not isinstance(replica, int) or replica == 0:
            self._traces[f"{wanted.full}{number}"] = trace
        return outputs, {number: flat}
