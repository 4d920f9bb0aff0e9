"""One version of the training step: traced once, run in place of Keras's own."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import reduce_per_replica
from tensorflow.python.framework.config import is_op_determinism_enabled

from tb_netdebug.capture.keras.autograph import unconverted

# The numbers of a trace that Keras's own replicas share, and the tensors of the first replica.
Shown = dict[str, list[Any]]


class Version:
    """`step(data)` gives Keras's results and what is shown of them, in a graph or eagerly."""

    def __init__(self, model: Any, step: Callable[[str, Any], tuple[Any, Shown]], *, is_eager: bool) -> None:
        self.has_run = False
        strategy = model.distribute_strategy
        traces = iter(range(1 << 62))

        @unconverted
        def one_step(data: Any) -> Any:
            number = str(next(traces))  # all replicas have to agree on it

            def replica_step(given: Any) -> Any:
                return step(number, given)

            outputs, shown = strategy.run(replica_step, args=(data,))
            return reduce_per_replica(outputs, strategy, reduction="auto"), first_replica(shown, strategy)

        self._one_step: Any = one_step if is_eager else tf.function(one_step, reduce_retracing=True)
        self._converted = converted = model._autoconvert_optionals(self._one_step)
        self._without_optionals = model._autoconvert_optionals(lambda given: given)

        # TensorFlow's clock is a source of chance for it, and refuses to run then.
        has_clock = not is_op_determinism_enabled()

        @unconverted
        def next_step(iterator: Any) -> Any:
            if not has_clock:
                return converted(iterator.get_next())
            data, wait = timed_next(iterator)
            outputs, shown = converted(data)
            return outputs, {number: [*tensors, wait] for number, tensors in shown.items()}

        self._next_step: Any = next_step if is_eager else tf.function(next_step, reduce_retracing=True)
        self._is_eager = is_eager
        self._iterator: Callable[[], Any] = lambda: None
        self._concrete: Any = None

    def __call__(self, iterator: Any) -> tuple[Any, Shown]:
        found: tuple[Any, Shown]
        if iterator is self._iterator():
            # the very same one gives batches of the same kind: TensorFlow need not look which graph they fit
            found = self._concrete(iterator)
        elif isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            found = self._next_step(iterator)
            if self.has_run and not self._is_eager and isinstance(iterator, tf.data.Iterator):
                self._concrete = self._next_step.get_concrete_function(iterator)
                self._iterator = weakref.ref(iterator)
        else:
            found = self.run(next(iter(iterator)))
        self.has_run = True
        return found

    def run(self, data: Any) -> tuple[Any, Shown]:
        """With a batch that is at hand."""
        found: tuple[Any, Shown] = self._converted(data)
        return found

    def concrete(self, data: Any) -> Any:
        """The graph that such a batch is run with, which is traced if need be."""
        return self._one_step.get_concrete_function(self._without_optionals(data))

    def tracing_count(self) -> int:
        both = (self._next_step, self._one_step)  # which the first one calls, when it is in use
        counts = [int(getattr(each, "experimental_get_tracing_count", int)()) for each in both]
        return counts[0] or counts[1]


def timed_next(iterator: Any) -> tuple[Any, Any]:
    """A batch, and the seconds that it was waited for."""
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
