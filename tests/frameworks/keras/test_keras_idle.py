"""Loops with GradientTape in which nothing, or not all, is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tests.support.keras_runs import X, Y

L = keras.layers
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
# Moves a model with its gradients, or does not.
Step = Callable[[int, Any, list[Any]], None]


def walk(logdir: Path, step: Step, *, steps: int = 80) -> dict[str, Any]:
    """What is said of a loop, by rule."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [L.Input((16,)), L.Dense(32, activation="relu"), L.Dense(32, activation="relu"), L.Dense(3)]
    )
    with nd.watch(model, logdir=logdir, on_finding="ignore", strict=True) as monitor:
        for number in range(steps):
            rows = slice(number % 8 * 32, number % 8 * 32 + 32)
            with tf.GradientTape() as tape:
                loss = LOSS(Y[rows], model(tf.constant(X[rows]), training=True))
            step(number, model, tape.gradient(loss, model.trainable_variables))
            monitor.step(loss=loss)
    return {each.rule: each for each in monitor.findings}


def nothing(number: int, model: Any, gradients: list[Any]) -> None:
    """The gradients are forgotten."""


def by_hand(number: int, model: Any, gradients: list[Any]) -> None:
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
        variable.assign_sub(0.05 * gradient)


class AddedUp:
    """Uses the gradients of so many batches at once."""

    def __init__(self, batches: int) -> None:
        self._batches = batches
        self._optimizer = keras.optimizers.SGD(0.05)
        self._sums: list[Any] = []

    def __call__(self, number: int, model: Any, gradients: list[Any]) -> None:
        self._sums = [a + b for a, b in zip(self._sums, gradients, strict=True)] if self._sums else gradients
        if (number + 1) % self._batches == 0:
            self._optimizer.apply_gradients(zip(self._sums, model.trainable_variables, strict=True))
            self._sums = []


class OfTheLast:
    """Trains the last layer alone."""

    def __init__(self) -> None:
        self._optimizer = keras.optimizers.SGD(0.05)

    def __call__(self, number: int, model: Any, gradients: list[Any]) -> None:
        last = list(zip(gradients, model.trainable_variables, strict=True))[-2:]
        self._optimizer.apply_gradients(last)


def test_gradients_that_are_never_applied(tmp_path: Path) -> None:
    """Told in the words of Keras."""
    said = walk(tmp_path, nothing)["unchanged-weights"]
    assert "WARNING" == said.severity.name
    assert "optimizer.apply_gradients() was not called in 64 steps" in said.message


def test_gradients_that_are_not_used_for_some_steps_may_be_added_up(tmp_path: Path) -> None:
    assert "unchanged-weights" not in walk(tmp_path, nothing, steps=60)


@pytest.mark.parametrize("step", [by_hand, AddedUp(8)])
def test_weights_that_move_without_an_optimizer_or_seldom(step: Step, tmp_path: Path) -> None:
    assert "unchanged-weights" not in walk(tmp_path, step)


def test_what_was_said_too_early_is_over(tmp_path: Path) -> None:
    """An optimizer that steps for the first time after 70 batches does step."""
    said = walk(tmp_path, AddedUp(70), steps=140)["unchanged-weights"]
    assert said.last_step < 80


def test_layers_that_no_gradient_is_taken_of(tmp_path: Path) -> None:
    """They are as random as Keras makes them: nobody keeps that on purpose."""
    said = walk(tmp_path, OfTheLast(), steps=20)["not-optimized"]
    assert "ERROR" == said.severity.name
    assert ["kernel", "bias"] * 2 == [name.rpartition(".")[2] for name in said.where]
