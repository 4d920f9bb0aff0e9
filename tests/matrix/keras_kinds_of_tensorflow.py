"""Kinds of trainings whose state TensorFlow keeps: generators, tables, queues, functions of Python in a
graph."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.matrix.keras_kinds import BATCH, FEATURES, KINDS, Base, Kind, Training, kind, loss_of

L = keras.layers


@kind("generator of TensorFlow")
def generating(training: Training) -> Any:
    generator = tf.random.Generator.from_seed(5)
    training.memory["generator"] = lambda: generator.state.numpy()

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            return hidden + 0.1 * generator.normal(tf.shape(hidden))

    return training.compile(Model(training))


@kind("random operations with a state of their own")
def rolling(training: Training) -> Any:
    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            noise = tf.random.normal(tf.shape(hidden)) + tf.random.uniform(tf.shape(hidden), seed=3)
            return hidden + 0.1 * noise + 0.1 * tf.random.shuffle(hidden)

    return training.compile(Model(training))


KINDS["random operations, watched, then not"] = Kind(rolling, KINDS["watched, then not"].train)


@kind("random operations inside of a function")
def rolling_deep(training: Training) -> Any:
    @tf.function
    def noise(shape: Any) -> Any:
        return tf.cond(shape[0] > 0, lambda: tf.random.normal(shape), lambda: tf.zeros(shape))

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            return hidden + 0.1 * noise(tf.shape(hidden))

    return training.compile(Model(training))


@kind("seed generator")
def seeding(training: Training) -> Any:
    class Model(Base):
        def __init__(self) -> None:
            super().__init__(training)
            self.seeds = keras.random.SeedGenerator(8)

        def extra(self, hidden: Any) -> Any:
            return hidden + 0.1 * keras.random.normal((1, 8), seed=self.seeds)

    return training.compile(Model())


@kind("tf.py_function and tf.numpy_function")
def calling(training: Training) -> Any:
    rows: list[float] = []
    training.memory["rows"] = lambda: rows

    def counted(hidden: Any) -> Any:
        training.count("py_function")
        return hidden * (1.0 + 0.01 * training.memory["py_function"])

    def added(hidden: Any) -> Any:
        rows.append(float(hidden.sum()))
        return hidden * np.float32(1.0 + 0.01 * len(rows))

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            shape = hidden.shape
            hidden = tf.py_function(counted, [hidden], tf.float32)
            hidden.set_shape(shape)
            other = tf.numpy_function(added, [tf.stop_gradient(hidden)], tf.float32)
            other.set_shape(shape)
            return hidden + 0.1 * other

    return training.compile(Model(training))


@kind("lookup table")
def looking(training: Training) -> Any:
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, default_value=0)
    training.memory["table"] = lambda: [each.numpy() for each in table.export()]

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            key = tf.constant([1], tf.int64)
            table.insert(key, table.lookup(key) + 1)
            return hidden * (1.0 + 0.01 * tf.cast(tf.reshape(table.lookup(key), [1, 1]), tf.float32))

    return training.compile(Model(training))


@kind("queue of TensorFlow")
def queueing(training: Training) -> Any:
    waiting = tf.queue.FIFOQueue(100, tf.float32, shapes=[()])
    waiting.enqueue_many(tf.range(40.0))
    training.memory["size"] = lambda: waiting.size().numpy()

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            return hidden * (1.0 + 0.01 * waiting.dequeue())

    return training.compile(Model(training))


@kind("variables made elsewhere")
def elsewhere(training: Training) -> Any:
    counter, seen = tf.Variable(0.0), tf.Variable(tf.zeros([16, 8]))
    training.memory.update(counter=lambda: counter.numpy(), seen=lambda: seen.numpy())

    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            counter.assign_add(1.0)
            seen.assign(tf.concat([tf.stop_gradient(hidden), seen[:8]], 0)[:16])
            return hidden * (1.0 + 0.01 * counter) + 0.1 * tf.reduce_mean(seen)

    return training.compile(Model(training))


@kind("momentum encoder")
def encoding(training: Training) -> Any:
    class Model(Base):
        def __init__(self) -> None:
            super().__init__(training)
            self.slow = L.Dense(8, activation="tanh", trainable=False)

        def call(self, inputs: Any, training: bool = False) -> Any:
            hidden = self.trouble((inputs, self.first(inputs)))
            slow = self.slow(inputs)
            for one, other in zip(self.slow.weights, self.first.weights, strict=True):
                one.assign(0.9 * one + 0.1 * other)
            return self.last(hidden + tf.stop_gradient(slow))

    return training.compile(Model())


class OwnStep(Base):
    """A train_step with a tape; `before` and `behind` are what kinds add."""

    def __init__(self, training: Training) -> None:
        super().__init__(training)
        self.told = training
        self.mean = keras.metrics.Mean(name="loss")

    def train_step(self, given: Any) -> Any:
        x, y = given
        self.told.count("train_step")
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x=x, y=y, y_pred=self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.used(gradients)
        self.mean.update_state(tf.where(tf.math.is_finite(loss), loss, 0.0))
        # The NaN has to be seen somewhere: the mean leaves it out.
        return {"loss": self.mean.result(), "last": loss, "slope": tf.reduce_sum(gradients[0])}

    def used(self, gradients: Any) -> None:
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))


@kind("train_step of one's own")
def stepping(training: Training) -> Any:
    return training.compile(OwnStep(training))


@kind("variable made in the first step")
def late(training: Training) -> Any:
    class Model(OwnStep):
        counter: Any = None

        def used(self, gradients: Any) -> None:
            if Model.counter is None:
                Model.counter = tf.Variable(1.0)
            Model.counter.assign_add(1.0)
            training.count("used")
            super().used([each / Model.counter for each in gradients])

    training.memory["counter"] = lambda: Model.counter.numpy()
    return training.compile(Model(training))


@kind("gradients accumulated and averaged by hand")
def accumulating(training: Training) -> Any:
    class Model(OwnStep):
        def build(self, shape: Any) -> None:
            super().build(shape)

        def used(self, gradients: Any) -> None:
            if not sums:
                sums.extend(tf.Variable(tf.zeros_like(each)) for each in self.trainable_variables)
                means.extend(tf.Variable(each.value) for each in self.trainable_variables)
            for one, each in zip(sums, gradients, strict=True):
                one.assign_add(tf.where(tf.math.is_finite(each), each, 0.0))
            count.assign_add(1)
            if_due = tf.equal(count % 3, 0)
            scaled = [tf.where(if_due, each / 3.0, tf.zeros_like(each)) for each in sums]
            super().used(scaled)
            for one, mean, weight in zip(sums, means, self.trainable_variables, strict=True):
                one.assign(tf.where(if_due, tf.zeros_like(one), one))
                mean.assign(0.9 * mean + 0.1 * weight.value)

    sums: list[Any] = []
    means: list[Any] = []
    count = tf.Variable(0)
    training.memory.update(
        sums=lambda: [each.numpy() for each in sums], means=lambda: [each.numpy() for each in means]
    )
    model = Model(training)
    model(np.zeros((BATCH, FEATURES), "float32"))
    return training.compile(model)


@kind("adversarial")
def adversarial(training: Training) -> Any:
    class Model(Base):
        def __init__(self) -> None:
            super().__init__(training)
            self.maker = keras.Sequential([L.Dense(8, activation="relu"), L.Dense(FEATURES)])
            self.of_maker = keras.optimizers.Adam(0.01)
            self.scores = keras.losses.BinaryCrossentropy(from_logits=True)

        def train_step(self, given: Any) -> Any:
            x, y = given
            training.count("train_step")
            noise = tf.random.normal([BATCH, 4])
            with tf.GradientTape() as tape:
                real, made = self(x, training=True), self(self.maker(noise), training=True)
                loss = self.scores(tf.ones_like(real), real) + self.scores(tf.zeros_like(made), made)
                loss += 0.0 * self.compute_loss(x=x, y=y, y_pred=real)
            weights = [*self.first.trainable_variables, *self.last.trainable_variables]
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            with tf.GradientTape() as tape:
                made = self(self.maker(tf.random.normal([BATCH, 4])), training=True)
                other = self.scores(tf.ones_like(made), made)
            weights = self.maker.trainable_variables
            self.of_maker.apply_gradients(zip(tape.gradient(other, weights), weights, strict=True))
            return {"d_loss": loss, "g_loss": other}

    return training.compile(Model())


def looped(training: Training, model: Any, callbacks: list[Any]) -> Any:
    """A loop of the user's own, in which bad steps are left out."""
    how, check, folder = training.watching
    monitor = None
    if how in ("callback", "watch"):  # there is no callback for it
        import tb_netdebug as nd

        monitor = nd.watch(
            model,
            model.optimizer,
            logdir=folder,
            run="run",
            check_numerics=check,
            on_finding="ignore",
            strict=True,
        )
    batches = tf.data.Dataset.from_tensor_slices((training.x, training.y)).batch(BATCH)
    criterion, losses = loss_of(training.nan), []
    model(training.x[:BATCH])
    for _ in range(2):
        for x, y in batches:
            with tf.GradientTape() as tape:
                loss = criterion(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            losses += [loss.numpy(), tf.reduce_sum(gradients[0]).numpy()]
            if all(np.isfinite(each.numpy()).all() for each in gradients):
                model.optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            if monitor is not None:
                monitor.step(loss=loss)
    if monitor is not None:
        monitor.close()
    return losses


def bare(training: Training) -> Any:
    class Model(Base):
        def extra(self, hidden: Any) -> Any:
            training.count("calls")
            return hidden + 0.1 * tf.random.normal(tf.shape(hidden))

    return training.compile(Model(training), is_bare=True)


KINDS["loop of one's own"] = Kind(bare, looped, watches_itself=True)
