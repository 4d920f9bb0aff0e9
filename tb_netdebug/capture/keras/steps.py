"""Keras's training step in two versions of our own: a light one, and one that shows every layer.

Both are traced by TensorFlow once, in the first two steps, from the model's own `train_step`. They compute
the same to the last bit; what they show beside it are tensors that are there anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer, reduce_per_replica
from tensorflow.python.framework.config import is_op_determinism_enabled

from tb_netdebug.capture.clock import now
from tb_netdebug.capture.collector import Collector
from tb_netdebug.capture.guard import Guard
from tb_netdebug.capture.keras.calls import listening
from tb_netdebug.capture.keras.layers import Network
from tb_netdebug.capture.keras.tap import MOST_INPUTS, Tap
from tb_netdebug.capture.keras.values import dense, tensors_in, unconverted

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

Shown = dict[str, Any]
# Where the numbers of a step stand in the one tensor that holds them all.
# From RATES on come the learning rates, and the seconds that the batch was waited for where they are known.
NUMBER, LOSS, SIZE, SQUARES, NONFINITE, SCALE, RATES = range(7)


@dataclass(slots=True, eq=False)
class Ran:
    """A step that has run: what its trace has found, and the values of this run."""

    tap: Tap
    shown: Shown
    numbers: list[float]


@dataclass(eq=False)
class TrainSteps:
    """Takes the place of a model's `train_function`, and hands each step that has run to `ran`."""

    model: Any
    network: Network
    collector: Collector
    guard: Guard
    refuse: Callable[[str, str], None]
    wants_layers: bool
    wants_gradients: bool
    last: Ran | None = None
    runs: int = 0
    is_running: bool = False
    is_blind: bool = False
    _ordinary: Any = None
    _versions: dict[bool, Version] = field(default_factory=dict)
    _taps: dict[int, Tap] = field(default_factory=dict)
    _light_secs: float = 0.0

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
        self._ordinary = None
        self._versions.clear()

    def take_over(self) -> None:
        """Whatever Keras would call now is called through us."""
        current = self.model.train_function
        if current is None or current == self._run:
            return
        self._ordinary = current
        self._versions.clear()
        self.model.train_function = self._run
        self._explain()

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
        started = now()
        try:
            if self.guard.is_off or self.is_blind:
                return self._ordinary(iterator)
            return self._run_ours(iterator, full=self.collector.sampling)
        finally:
            self.is_running = False
            self.runs += 1
            self._charge(now() - started)

    def _run_ours(self, iterator: Any, *, full: bool) -> Any:
        version = self._versions.get(full)
        if version is None:
            version = self._versions[full] = Version(self, full=full)
        try:
            outputs, shown = version(iterator)
        except (StopIteration, tf.errors.OpError):
            raise
        except Exception as error:
            if self.is_eager or version.has_run:
                raise
            outputs = self._ordinary(iterator)  # raises the same again when the mistake is the user's
            self.guard.fault("tracing the training step", error)
            self.is_blind = True
            return outputs
        version.has_run = True
        numbers = shown["numbers"].numpy().tolist()
        tap = self._taps.get(int(numbers[NUMBER]))
        if tap is not None:
            self.last = Ran(tap, shown, numbers)
            if self.is_eager:
                self._taps.clear()
        return outputs

    def _charge(self, secs: float) -> None:
        """What the full version takes longer than the light one is our doing."""
        if self.last is None or self.runs < 4:
            return
        if not self.collector.sampling:
            self._light_secs += (secs - self._light_secs) * (0.1 if self._light_secs else 1.0)
        elif self._light_secs:
            self.collector.spent_secs += min(max(secs - self._light_secs, 0.0), secs / 2)

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

    # ---- what is traced ----------------------------------------------------------------------------------

    def watched_step(self, data: Any, *, full: bool) -> tuple[Any, Shown]:
        """The model's own step, and what it has shown; runs once for each replica."""
        tap = Tap(self.network, self.guard, wants_layers=self.wants_layers)
        with listening(tap), heard(self.model, tap):
            outputs = self.model.train_step(data)
        if not self.network.is_complete():
            self.network.refresh()
        if tap.hidden and not self.is_eager:
            self.refuse("a part of the model", "it runs in a loop or function inside of TensorFlow's graph")
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        if not isinstance(replica, int) or replica == 0:
            self._taps[tap.number] = tap
        return outputs, self._shown(tap, data, full=full)

    def _shown(self, tap: Tap, data: Any, *, full: bool) -> Shown:
        gradients = tap.gradients() if self.wants_gradients else []
        given = [dense(each) for _, each in tensors_in(data)][:MOST_INPUTS]
        replicas = self.model.distribute_strategy.num_replicas_in_sync
        shown: Shown = {
            "inputs": given[: len(list(tensors_in(first_of(data))))],
            "targets": [dense(loss.target) for loss in tap.losses],
            "given": [loss.given for loss in tap.losses],
            "values": [loss.output for loss in tap.losses],
            "gradients": [],
            "activations": [],
            "flags": [],
        }
        activations = [tensor for _, _, tensor in tap.activations()]
        squares, nonfinite = missing(), missing()
        if full:
            shown["gradients"] = [gradient for _, gradient, _ in gradients]
            shown["activations"] = activations
        elif gradients:
            squares, nonfinite = squares_of([gradient for _, gradient, _ in gradients])
        loss = loss_of(tap, replicas)
        if activations and not full:
            shown["flags"] = [flags_of(activations, loss, squares)]
        scales = [scale for _, _, scale in gradients if scale is not None]
        shown["numbers"] = tf.stack(
            [
                tf.constant(float(tap.number), tf.float64),
                loss,
                size_of(given),
                squares,
                nonfinite,
                tf.cast(scales[0], tf.float64) if scales else missing(),
                *tap.rates,
            ]
        )
        return shown


class Version:
    """One of the two."""

    def __init__(self, steps: TrainSteps, *, full: bool) -> None:
        self.has_run = False
        model = steps.model
        is_eager = steps.is_eager
        strategy = model.distribute_strategy

        def step(data: Any) -> Any:
            return steps.watched_step(data, full=full)

        @unconverted
        def one_step(data: Any) -> Any:
            outputs, shown = strategy.run(step, args=(data,))
            return reduce_per_replica(outputs, strategy, reduction="auto"), first_replica(shown, strategy)

        self._one_step = one_step if is_eager else tf.function(one_step, reduce_retracing=True)
        converted = model._autoconvert_optionals(self._one_step)

        # TensorFlow's clock is a source of chance for it, and refuses to run then.
        has_clock = not is_op_determinism_enabled()

        @unconverted
        def next_step(iterator: Any) -> Any:
            data, wait = timed_next(iterator) if has_clock else (iterator.get_next(), missing())
            outputs, shown = converted(data)
            shown["numbers"] = tf.concat([shown["numbers"], [wait]], 0)
            return outputs, shown

        self._converted = converted
        self._next_step = next_step if is_eager else tf.function(next_step, reduce_retracing=True)

    def __call__(self, iterator: Any) -> tuple[Any, Shown]:
        if isinstance(iterator, tf.data.Iterator | tf.distribute.DistributedIterator):
            found: tuple[Any, Shown] = self._next_step(iterator)
            return found
        found = self._converted(next(iter(iterator)))
        return found

    def tracing_count(self) -> int:
        counts = [getattr(each, "experimental_get_tracing_count", int)() for each in (self._next_step,)]
        return sum(counts)


@contextmanager
def heard(model: Any, tap: Tap) -> Iterator[None]:
    """Tells the tap what `model.compute_loss` gives."""
    original = model.compute_loss

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        loss = original(*args, **kwargs)
        tap.computed(loss)
        return loss

    before = model.__dict__.get("compute_loss")
    model.__dict__["compute_loss"] = compute_loss
    try:
        yield
    finally:
        if before is None:
            model.__dict__.pop("compute_loss", None)
        else:
            model.__dict__["compute_loss"] = before


def timed_next(iterator: Any) -> tuple[Any, Any]:
    """A batch, and the seconds that it was waited for."""
    before = tf.timestamp()
    with tf.control_dependencies([before]):
        data = iterator.get_next()
    with tf.control_dependencies([each for each in tf.nest.flatten(data) if is_plain(each)]):
        return data, tf.timestamp() - before


def missing() -> Any:
    return tf.constant(float("nan"), tf.float64)


def loss_of(tap: Tap, replicas: int) -> Any:
    """That of the whole step; where nobody has asked the model for it, the first that was computed."""
    if tap.whole_loss is not None:
        return tf.cast(tap.whole_loss, tf.float64) * replicas
    for seen in tap.losses:
        return tf.reduce_mean(tf.cast(seen.output, tf.float64))
    return missing()


def size_of(given: list[Any]) -> Any:
    for each in given:
        if each.shape.rank != 0:
            return tf.cast(tf.shape(each)[0], tf.float64)
    return missing()


def squares_of(gradients: list[Any]) -> tuple[Any, Any]:
    """The sum of squares, and how many values are no numbers; counted only when there are any."""
    singles = [each if each.dtype == tf.float64 else tf.cast(each, tf.float32) for each in gradients]
    squares = tf.add_n([tf.cast(tf.nn.l2_loss(each), tf.float64) for each in singles]) * 2.0

    def count() -> Any:
        return tf.add_n(
            [tf.reduce_sum(tf.cast(tf.logical_not(tf.math.is_finite(each)), tf.float64)) for each in singles]
        )

    nonfinite = tf.cond(tf.math.is_finite(squares), lambda: tf.constant(0.0, tf.float64), count)
    return squares, nonfinite


def flags_of(outputs: list[Any], loss: Any, squares: Any) -> Any:
    """How many values of each output are not finite; looked at only when the step has gone wrong."""

    def count() -> Any:
        return tf.stack(
            [tf.reduce_sum(tf.cast(tf.logical_not(tf.math.is_finite(each)), tf.float64)) for each in outputs]
        )

    # a norm that was not measured is NaN, too
    is_good = tf.math.is_finite(loss) & (tf.math.is_finite(squares) | tf.constant(not is_measured(squares)))
    return tf.cond(is_good, lambda: tf.zeros([len(outputs)], tf.float64), count)


def is_measured(squares: Any) -> bool:
    value = tf.get_static_value(squares) if hasattr(squares, "graph") else squares.numpy()
    return value is None or value == value


def first_of(data: Any) -> Any:
    """The inputs of the model, in what the data gives."""
    return data[0] if isinstance(data, tuple | list) and data else data


def first_replica(shown: Shown, strategy: Any) -> Shown:
    def first(value: Any) -> Any:
        return strategy.experimental_local_results(value)[0]

    if strategy.num_replicas_in_sync == 1:
        return shown
    return {
        name: [first(each) for each in value] if isinstance(value, list) else first(value)
        for name, value in shown.items()
    }


def is_plain(value: Any) -> bool:
    return isinstance(value, tf.Tensor)
