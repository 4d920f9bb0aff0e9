"""Training steps of Keras that take their gradients of something else than the loss that they tell of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tests.support.keras_runs import Run, X, both
from tests.support.recorded import Recorded

L = keras.layers
SUM = X.sum(1, keepdims=True)
# What is descended, of the error of a batch.
Turn = Callable[[Any], Any]


def minus(error: Any) -> Any:
    return -error


def itself(error: Any) -> Any:
    return error


class ByHand(keras.Model):  # type: ignore[misc, name-defined]
    """Tells of its squared error, and descends what `turn` makes of it; with `attacks`, it looks where its
    inputs are weak first."""

    def __init__(self, turn: Turn, *, attacks: bool = False, given: float = 1.0) -> None:
        super().__init__()
        self.hidden, self.out = L.Dense(16, activation="relu"), L.Dense(1)
        self.turn, self.attacks, self.given = turn, attacks, given

    def call(self, inputs: Any) -> Any:
        return self.out(self.hidden(inputs))

    def error(self, inputs: Any, targets: Any) -> Any:
        return tf.reduce_mean(tf.square(targets - self(inputs, training=True)))

    def train_step(self, data: Any) -> Any:
        x, y = data
        if self.attacks:
            with tf.GradientTape() as tape:
                tape.watch(x)
                target = -self.error(x, y)
            x = x - 0.01 * tf.sign(tape.gradient(target, x))
        with tf.GradientTape() as tape:
            error = self.error(x, y)
            loss = self.turn(error)
        gradients = [self.given * each for each in tape.gradient(loss, self.trainable_variables)]
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        return {"loss": error}


def fitted(logdir: Path, model: Any) -> Run:
    keras.utils.set_random_seed(1)
    model.compile(keras.optimizers.Adam(0.005))

    def fit(model: Any, callbacks: list[Any]) -> Any:
        return model.fit(X, SUM, batch_size=32, epochs=8, verbose=0, callbacks=callbacks)

    return Run(logdir, model, fit)


@pytest.mark.parametrize("turn", [minus, lambda error: -0.5 * error, lambda error: 0.0 - error])
def test_a_loss_that_is_climbed(turn: Turn, tmp_path: Path) -> None:
    """Whatever the minus looks like."""
    assert "loss-negative" in fitted(tmp_path, ByHand(turn)).slugs


def test_numbers_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """Though one number more comes out of the graph."""

    def build() -> Any:
        model = ByHand(lambda error: 0.01 * tf.math.log(error) - error, attacks=True)
        model.compile(keras.optimizers.Adam(0.005))
        return model

    def fit(model: Any, callbacks: list[Any]) -> Any:
        return model.fit(X, SUM, batch_size=32, epochs=8, verbose=0, callbacks=callbacks)

    run, is_same = both(tmp_path, build, fit)
    assert is_same
    assert 30 <= len(run.scalar("probe/descended"))


def test_what_is_descended_is_recorded_where_it_is_not_the_loss(tmp_path: Path) -> None:
    turned = fitted(tmp_path / "turned", ByHand(minus))
    losses = turned.scalar("loss")
    assert {step: -losses[step] for step in range(2, 32)} == {
        step: value for step, value in turned.scalar("probe/descended").items() if 2 <= step < 32
    }
    assert {} == fitted(tmp_path / "plain", ByHand(itself)).scalar("probe/descended")


@pytest.mark.parametrize(
    "model",
    [
        lambda: ByHand(itself, attacks=True),  # what is climbed by the inputs is no loss of the weights
        lambda: ByHand(minus, given=-1.0),  # the sign is turned twice, and the loss falls
        lambda: ByHand(lambda error: error + 0.1),
    ],
)
def test_what_only_looks_like_a_climb(model: Callable[[], Any], tmp_path: Path) -> None:
    assert set() == fitted(tmp_path, model()).slugs


def test_a_loop_of_ones_own_that_climbs(tmp_path: Path) -> None:
    """A loss of Keras's, with a minus where the tape is asked."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([L.Input((16,)), L.Dense(1)])
    optimizer, loss_of = keras.optimizers.Adam(0.01), keras.losses.MeanSquaredError()
    with nd.watch(model, optimizer, logdir=tmp_path, run="run", on_finding="ignore", strict=True) as monitor:
        for step in range(48):
            rows = slice(step % 8 * 32, step % 8 * 32 + 32)
            with tf.GradientTape() as tape:
                loss = loss_of(SUM[rows], model(tf.constant(X[rows]), training=True))
                turned = -loss
            gradients = tape.gradient(turned, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            monitor.step(loss=loss)
    assert "loss-negative" in {each.rule for each in monitor.findings if each.severity.name != "INFO"}
    assert 32 <= len(Recorded.of(tmp_path / "run").scalars["probe/descended"])


def test_tapes_are_as_they_were_afterwards(tmp_path: Path) -> None:
    before = tf.GradientTape.gradient
    fitted(tmp_path, ByHand(itself))
    assert before is tf.GradientTape.gradient
