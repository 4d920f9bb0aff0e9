"""A train_step of the user's own, whose loss is no loss of Keras's but written there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.keras_runs import Run, X, Y, dense

L = keras.layers
SUM = X.sum(1, keepdims=True)


class ByHand(keras.Model):  # type: ignore[misc, name-defined]
    """Squares the error itself; the loss that it gives back may be the mean of the epoch so far."""

    def __init__(self, *, gives_mean: bool) -> None:
        super().__init__()
        self.out = L.Dense(1)
        self.mean = keras.metrics.Mean("mean")
        self.gives_mean = gives_mean

    def call(self, inputs: Any) -> Any:
        return self.out(inputs)

    def train_step(self, data: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(data[1] - self(data[0], training=True)))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.mean.update_state(loss)
        return {"loss": self.mean.result() if self.gives_mean else loss}


class Losses(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    """What Keras tells of each batch."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.told.append(float(logs["loss"]))


def run(
    logdir: Path, losses: Losses, *, gives_mean: bool = False, targets: Any = SUM, eager: bool = False
) -> Run:
    keras.utils.set_random_seed(1)
    model = ByHand(gives_mean=gives_mean)
    model.compile("adam", run_eagerly=eager)

    def fit(model: Any, callbacks: list[Any]) -> Any:
        return model.fit(X, targets, batch_size=32, verbose=0, callbacks=[*callbacks, losses])

    return Run(logdir, model, fit)


@pytest.mark.parametrize("eager", [False, True])
def test_the_loss_of_a_step_of_ones_own_is_what_it_gives_back(tmp_path: Path, eager: bool) -> None:
    losses = Losses()
    recorded = run(tmp_path, losses, eager=eager).scalar("loss")
    assert pytest.approx(losses.told) == list(recorded.values())


@pytest.mark.parametrize("eager", [False, True])
def test_the_mean_of_an_epoch_is_not_the_loss_of_a_batch(tmp_path: Path, eager: bool) -> None:
    """It jumps where the next epoch begins, and would be judged for that: what the gradients are taken of is
    that batch's own."""
    losses = Losses()
    recorded = run(tmp_path, losses, gives_mean=True, eager=eager).scalar("loss")
    means = np.cumsum(list(recorded.values())) / np.arange(1, len(recorded) + 1)
    assert pytest.approx(losses.told, rel=1e-5) == means.tolist()
    assert len(losses.told) > 2


def test_steps_in_which_a_graph_is_made_say_so(tmp_path: Path) -> None:
    """After each `compile` it is made anew, in both versions of ours."""
    model = dense(L.Dense(3))

    def fit(model: Any, callbacks: list[Any]) -> None:
        model.fit(X, Y, batch_size=32, verbose=0, callbacks=callbacks)
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(X, Y, batch_size=32, verbose=0, callbacks=callbacks)

    assert [0, 1, 8, 9] == sorted(Run(tmp_path, model, fit).scalar("probe/traced"))


@pytest.mark.parametrize(("targets", "is_wrong"), [(SUM[:, 0], True), (SUM, False)])
def test_each_prediction_is_subtracted_from_every_target(
    targets: Any, is_wrong: bool, tmp_path: Path
) -> None:
    """A column from a row makes a square, without a word."""
    assert is_wrong == ("loss-input-shape" in run(tmp_path, Losses(), targets=targets).slugs)
