"""The training step of a model in TensorFlow graphs, traced once per kind of batch, like Keras's own.

Tracing runs the user's Python. So there is one trace, which returns everything that may be wanted, and two
callers that take more or less of it; TensorFlow prunes what a caller does not take. What was traced stays
with the model when it is no longer watched, because tracing again would run the user's code again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Protocol

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import reduce_per_replica
from tensorflow.python.framework.config import is_op_determinism_enabled

from tb_netdebug.frameworks.keras.autograph import unconverted
from tb_netdebug.frameworks.keras.kernel_state import has_state
from tb_netdebug.frameworks.keras.traced import StepTrace

# By the number of a trace, which all replicas share: the tensors of the first replica.
Shown = dict[str, list[Any]]


class Watcher(Protocol):
    """Observes a step while it is traced, or runs eagerly; `TrainSteps` is one."""

    def watched_step(self, data: Any, number: str) -> tuple[Any, Shown]:
        """Return the results of the model's own step, and tensors that exist anyway."""


class Program:
    """Runs batches; `traces` says where each tensor of a run stands.

    `keeps_state`: some operations have a state of their own, such as a random generator that belongs to no
    variable. Two callers would each have that state, so then there is only one caller.
    """

    def __init__(self, model: Any, *, is_eager: bool) -> None:
        # Weak, because the model holds this program in its train function.
        self.model = weakref.ref(model)
        self.is_eager = is_eager
        self.watcher: Watcher | None = None
        self.traces: dict[str, StepTrace] = {}
        self.keeps_state = False
        self.has_run = False
        self._callers: dict[bool, BatchRunner] = {}
        strategy = model.distribute_strategy
        # Numbers the traces, or the steps if they run eagerly.
        numbers = iter(range(1 << 62))

        @unconverted
        def one_step(data: Any) -> Any:
            number = str(next(numbers))  # all replicas have to agree on it

            def replica_step(given: Any) -> Any:
                if self.watcher is None:
                    return model_of(self).train_step(given), {number: []}
                return self.watcher.watched_step(given, number)

            outputs, shown = strategy.run(replica_step, args=(data,))
            return reduce_per_replica(outputs, strategy, reduction="auto"), first_replica(shown, strategy)

        self.one_step: Any = one_step if is_eager else tf.function(one_step, reduce_retracing=True)
        self.without_optionals = model._autoconvert_optionals(lambda given: given)

    def run(self, source: Any, *, full: bool) -> tuple[Any, Shown]:
        """Run one batch of an iterator."""
        # Only the trace of the first run tells whether the program keeps state, so that run has to be full.
        full = full or not self.has_run or self.keeps_state
        caller = self._callers.get(full)
        if caller is None:
            caller = self._callers[full] = BatchRunner(self, full=full)
        found = caller(source)
        if not self.has_run and not self.is_eager:
            self.keeps_state = any(map(has_state, graphs_of(self.one_step)))
        self.has_run = True
        return found

    def tracing_count(self) -> int:
        """Return how often TensorFlow has traced one of our callers."""
        return sum(each.tracing_count() for each in self._callers.values())


class BatchRunner:
    """Runs a batch, and returns the tensors of the full version or of the light one."""

    def __init__(self, program: Program, *, full: bool) -> None:
        def with_batch(given: Any) -> tuple[Any, Shown]:
            outputs, shown = program.one_step(program.without_optionals(given))
            traces = program.traces
            return outputs, {
                number: traces[number].chosen(tensors, full=full) if number in traces else []
                for number, tensors in shown.items()
            }

        # TensorFlow's clock is not deterministic, and refuses to run under op determinism.
        has_clock = not is_op_determinism_enabled()

        def next_step(iterator: Any) -> Any:
            if not has_clock:
                return with_batch(iterator.get_next())
            data, wait = timed_next(iterator)
            outputs, shown = with_batch(data)
            # Behind all parts, where `TracedRun.wait_secs` expects it.
            return outputs, {number: [*tensors, wait] for number, tensors in shown.items()}

        self._is_eager = program.is_eager
        self._has_run = False
        self._next_step: Any
        self._with_batch: Any
        self._next_step, self._with_batch = (
            each if program.is_eager else tf.function(each, reduce_retracing=True)
            for each in (unconverted(next_step), unconverted(with_batch))
        )
        self._without_optionals = program.without_optionals
        self._iterator: Callable[[], Any] = lambda: None
        self._concrete: Any = None

    def __call__(self, iterator: Any) -> tuple[Any, Shown]:
        found: tuple[Any, Shown]
        if iterator is self._iterator():
            # The same iterator gives batches of the same kind, so TensorFlow need not look up the graph.
            found = self._concrete(iterator)
        elif isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            found = self._next_step(iterator)
            if self._has_run and not self._is_eager and isinstance(iterator, tf.data.Iterator):
                self._concrete = self._next_step.get_concrete_function(iterator)
                self._iterator = weakref.ref(iterator)
        else:
            found = self._with_batch(self._without_optionals(next(iter(iterator))))
        self._has_run = True
        return found

    def tracing_count(self) -> int:
        both = (self._next_step, self._with_batch)
        return sum(int(getattr(each, "experimental_get_tracing_count", int)()) for each in both)


class LeftBehind:
    """A model's train function after watching ends: runs what was traced, returns only Keras's results."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __call__(self, iterator: Any) -> Any:
        return self.program.run(iterator, full=False)[0]


def model_of(program: Program) -> Any:
    model = program.model()
    if model is None:
        raise ReferenceError("the model of this training step no longer exists")
    return model


def graphs_of(function: Any) -> list[Any]:
    """Return the graphs of everything that a tf.function has been traced for."""
    # TensorFlow has no public list of the graphs of a tf.function.
    config = (
        getattr(function, "_variable_creation_config", None),
        getattr(function, "_no_variable_creation_config", None),
    )
    caches = [each.function_cache for each in config if each is not None]
    return [
        concrete.graph for cache in caches for concrete in cache._primary.values() if concrete is not None
    ]


def traced_before(function: Any) -> int:
    """Return how often the tf.functions inside one of Keras's train functions have been traced."""
    count, waiting, seen = 0, [function], set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        counter = getattr(each, "experimental_get_tracing_count", None)
        if counter is not None:
            count += int(counter())
            continue
        # Keras wraps its tf.function in closures; search them all.
        cells = [
            cell.cell_contents for cell in getattr(each, "__closure__", None) or () if has_contents(cell)
        ]
        waiting += [each for each in cells if callable(each)]
    return count


def has_contents(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def timed_next(iterator: Any) -> tuple[Any, Any]:
    """Return a batch, and the seconds spent waiting for it."""
    before = tf.timestamp()
    with tf.control_dependencies([before]):
        data = iterator.get_next()
    with tf.control_dependencies([each for each in tf.nest.flatten(data) if isinstance(each, tf.Tensor)]):
        return data, tf.timestamp() - before


def first_replica(shown: Shown, strategy: Any) -> Shown:
    if strategy.num_replicas_in_sync == 1:
        return shown

    def first(value: Any) -> Any:
        return strategy.experimental_local_results(value)[0]

    return {number: [first(each) for each in tensors] for number, tensors in shown.items()}
