"""The same checks as for torch judge trainings of Keras."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tests.support.keras_runs import Run, dense

L = keras.layers
X = np.random.default_rng(0).normal(size=(640, 16)).astype("float32")
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
YES = (X[:, 0] > 0).astype(int)


class Cut(keras.Model):  # type: ignore[misc, name-defined]
    """Nothing of the loss comes back to its first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = L.Dense(32, activation="relu"), L.Dense(3)

    def call(self, inputs: Any) -> Any:
        return self.last(tf.stop_gradient(self.first(inputs)))


class NeverInTraining(keras.Model):  # type: ignore[misc, name-defined]
    """Its training step calls it as for an evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = keras.Sequential([L.Dense(32, activation="relu"), L.Dropout(0.5), L.Dense(3)])

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.parts(inputs, training=training)

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=data[1], y_pred=self(data[0], training=False))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": loss}


def compiled(model: Any) -> Any:
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def relu(units: int, **options: Any) -> Any:
    return L.Dense(units, activation="relu", **options)


def dead() -> Any:
    low = keras.initializers.Constant(-20.0)
    return dense(relu(64, bias_initializer=low), relu(64), L.Dense(3))


def all_frozen() -> Any:
    model = dense(relu(32), L.Dense(3))
    model.build((None, 16))
    model.trainable = False
    return compiled(model)


def broken(values: Any) -> Any:
    found = values.copy()
    found[300, 3] = np.nan
    return found


Case = tuple[str, Callable[[], Any], Any, Any]
SICK: dict[str, Case] = {
    "dead relu": ("zero-gradients", dead, X, Y),
    "learning rate": (
        "learning-rate-high",
        lambda: dense(relu(64), relu(64), L.Dense(3), optimizer=keras.optimizers.SGD(30.0)),
        X,
        Y,
    ),
    "softmax twice": (
        "loss-input-softmaxed",
        lambda: dense(relu(32), L.Dense(3), L.Softmax(), L.Reshape((3,))),
        X,
        Y,
    ),
    "scores for probabilities": (
        "loss-input-logits",
        lambda: dense(relu(32), L.Dense(3), loss="sparse_categorical_crossentropy"),
        X,
        Y,
    ),
    "log of a negative": (
        "nonfinite-activation",
        lambda: dense(L.Dense(8), L.Lambda(lambda each: tf.math.log(each), name="log"), L.Dense(3)),
        X,
        Y,
    ),
    "nan in a batch": ("nonfinite-input", lambda: dense(relu(32), L.Dense(3)), broken(X), Y),
    "cut off": ("no-gradient", lambda: compiled(Cut()), X, Y),
    "constant inputs": ("input-constant", lambda: dense(relu(32), L.Dense(3)), np.ones_like(X), Y),
    "one unit": (
        "constant-output",
        lambda: dense(relu(16), L.Dense(1, activation="softmax"), loss="binary_crossentropy"),
        X,
        YES,
    ),
    "one unit whose score Keras sees": (
        "loss-input-shape",
        lambda: dense(relu(16), L.Dense(1, activation="softmax"), loss="binary_crossentropy"),
        X,
        YES,
    ),
    "a score for a yes or no": (
        "loss-input-logits",
        lambda: dense(relu(16), L.Dense(1), loss="binary_crossentropy"),
        X,
        YES,
    ),
    "nothing to train": ("frozen-weights", all_frozen, X, Y),
    "evaluation mode": ("eval-mode-training", lambda: compiled(NeverInTraining()), X, Y),
}


def frozen() -> Any:
    model = dense(relu(32), relu(32), L.Dense(3))
    model.build((None, 16))
    model.layers[0].trainable = False
    return compiled(model)


HEALTHY: dict[str, tuple[Callable[[], Any], Any]] = {
    "relu": (lambda: dense(relu(32), L.Dense(3)), Y),
    "softmax": (
        lambda: dense(
            L.Dense(32, activation="tanh"),
            L.Dense(3, activation="softmax"),
            loss="sparse_categorical_crossentropy",
        ),
        Y,
    ),
    "softmax that Keras sees through": (lambda: dense(relu(32), L.Dense(3, activation="softmax")), Y),
    "yes or no by two units": (
        lambda: dense(relu(16), L.Dense(2, activation="softmax"), loss="sparse_categorical_crossentropy"),
        YES,
    ),
    "yes or no by a score": (
        lambda: dense(relu(16), L.Dense(1), loss=keras.losses.BinaryCrossentropy(from_logits=True)),
        YES,
    ),
    "yes or no": (
        lambda: dense(relu(16), L.Dense(1, activation="sigmoid"), loss="binary_crossentropy"),
        YES,
    ),
    "frozen": (frozen, Y),
    "batch norm and dropout": (
        lambda: dense(
            L.Dense(32),
            L.BatchNormalization(),
            L.ReLU(),
            L.Dropout(0.2),
            L.Dense(3),
            optimizer=keras.optimizers.Adam(0.01),
        ),
        Y,
    ),
}


def train(inputs: Any, labels: Any) -> Callable[[Any, list[Any]], Any]:
    return lambda model, callbacks: model.fit(inputs, labels, epochs=6, verbose=0, callbacks=callbacks)


@pytest.mark.parametrize("name", SICK)
def test_a_sick_network_is_found(name: str, tmp_path: Path) -> None:
    """Each by its own rule, at warning or error."""
    slug, build, inputs, labels = SICK[name]
    keras.utils.set_random_seed(1)
    assert slug in Run(tmp_path, build(), train(inputs, labels)).slugs


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_network_stays_quiet(name: str, tmp_path: Path) -> None:
    """No warning, no error."""
    build, labels = HEALTHY[name]
    keras.utils.set_random_seed(1)
    assert set() == Run(tmp_path, build(), train(X, labels)).slugs


def test_two_batches_are_enough_for_inputs_without_content(tmp_path: Path) -> None:
    """Though in the second step TensorFlow traces the graph of ordinary steps, which shows no layers."""
    model = dense(relu(32), L.Dense(3))

    def fit(model: Any, callbacks: list[Any]) -> Any:
        return model.fit(np.ones_like(X[:64]), Y[:64], verbose=0, callbacks=callbacks)

    run = Run(tmp_path, model, fit)
    assert [0, 1] == list(run.scalar("loss"))
    assert "input-constant" in run.slugs


def walk(logdir: Path, draw: Callable[[tf.data.Dataset], Iterator[Any]], after: Any = None) -> set[str]:
    """What is said of a loop of sixty steps that goes through six batches as `draw` does it."""
    data = tf.data.Dataset.from_tensor_slices((X[:192], Y[:192])).batch(32)
    keras.utils.set_random_seed(1)
    model, optimizer = keras.Sequential([relu(32), L.Dense(3)]), keras.optimizers.Adam()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    monitor = nd.watch(model, optimizer, logdir=logdir, on_finding="ignore", strict=True)
    for inputs, labels in islice(draw(data), 60):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(inputs, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        monitor.step(loss=loss)
        if after is not None:
            after(model)
    monitor.close()
    return {each.rule for each in monitor.findings if each.severity.name != "INFO"}


def test_a_dataset_that_is_started_over_in_each_step_gives_the_same_batch(tmp_path: Path) -> None:
    """`next(iter(data))` is told; a loop over the data, epoch after epoch, is not."""

    def begin(data: tf.data.Dataset) -> Iterator[Any]:
        while True:
            yield next(iter(data))

    def go_on(data: tf.data.Dataset) -> Iterator[Any]:
        while True:
            yield from data

    assert "input-repeated-batch" in walk(tmp_path / "begin", begin)
    assert "input-repeated-batch" not in walk(tmp_path / "go on", go_on)


def test_a_dataset_of_an_evaluation_is_not_that_of_the_training(tmp_path: Path) -> None:
    """One batch on purpose, with an evaluation after each step, is no mistake."""
    held = tf.data.Dataset.from_tensor_slices(X[192:320]).batch(64)

    def evaluate(model: Any) -> None:
        for inputs in held:
            model(inputs, training=False)

    assert "input-repeated-batch" not in walk(tmp_path, lambda data: repeat(next(iter(data))), after=evaluate)


def test_the_layer_that_made_the_first_nan_is_named_in_an_ordinary_step(tmp_path: Path) -> None:
    """The batch that breaks comes when no sample is due; the graph itself has counted."""
    inputs = np.ones((1280, 4), "float32")
    inputs[40 * 13] = -5.0  # the fourteenth batch
    model = dense(L.Lambda(lambda each: tf.sqrt(each), name="root"), L.Dense(3))
    keras.utils.set_random_seed(1)

    def in_order(model: Any, callbacks: list[Any]) -> Any:
        return model.fit(
            inputs, np.zeros(1280, int), batch_size=40, shuffle=False, verbose=0, callbacks=callbacks
        )

    run = Run(tmp_path, model, in_order, every=1000)
    found = {each.rule: each for each in run.callback.findings}
    assert "nonfinite-activation" in found
    assert found["nonfinite-activation"].where[0] == "root"
    assert found["nonfinite-activation"].first_step == 13
