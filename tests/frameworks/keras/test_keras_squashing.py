"""What an operation outside of all layers has made of the scores that a loss is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tb_netdebug.frameworks.keras.squashing import squashing
from tests.support.keras_runs import X, Y

SCORES = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")


@pytest.mark.parametrize(
    ("expected", "function"), [("Sigmoid", tf.sigmoid), ("Softmax", tf.nn.softmax), (None, tf.tanh)]
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_functions_are_known_by_their_values(expected: str | None, function: Any, dtype: str) -> None:
    """To rounding, as TensorFlow computes them."""
    scores = tf.cast(SCORES, dtype)
    assert expected == squashing(scores.numpy(), function(scores).numpy())


def test_scores_themselves_and_answers_at_their_ends_are_no_squashing() -> None:
    """A step is like a sigmoid of large scores, and so is much else."""
    assert squashing(SCORES, SCORES) is None
    assert squashing(40 * np.sign(SCORES), (SCORES > 0).astype("float32")) is None


def looped(logdir: Path, loss_of: Any, targets: Any, squash: Any, units: int) -> set[str]:
    """What is said in the first two steps of an eager loop."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((16,)), keras.layers.Dense(units)])
    optimizer = keras.optimizers.Adam(0.01)
    with nd.watch(model, optimizer, logdir=logdir, on_finding="ignore", strict=True) as monitor:
        for step in range(2):
            rows = slice(step * 32, step * 32 + 32)
            with tf.GradientTape() as tape:
                loss = loss_of(targets[rows], squash(model(tf.constant(X[rows]), training=True)))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            monitor.step(loss=loss)
    return {each.rule for each in monitor.findings if each.severity.name != "INFO"}


@pytest.mark.parametrize(("squash", "slugs"), [(tf.sigmoid, {"loss-input-softmaxed"}), (tf.identity, set())])
def test_a_sigmoid_before_scores_are_wanted_is_told_at_once(
    squash: Any, slugs: set[str], tmp_path: Path
) -> None:
    """Eager steps know no operations, and the numbers alone would need many looks."""
    loss_of = keras.losses.BinaryCrossentropy(from_logits=True)
    assert slugs == looped(tmp_path, loss_of, (Y[:, None] > 0).astype("float32"), squash, 1)


def test_probabilities_where_they_are_wanted_are_fine(tmp_path: Path) -> None:
    loss_of = keras.losses.SparseCategoricalCrossentropy()
    assert set() == looped(tmp_path, loss_of, Y, tf.nn.softmax, 3)
