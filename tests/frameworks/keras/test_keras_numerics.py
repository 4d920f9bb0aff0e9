"""The first NaN or infinity of a training with Keras: which layer and which operation made it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.run import run_files
from tb_netdebug.judging.recorded import records_in
from tests.support.keras_runs import Run, both, dense

L = keras.layers
# The first batch with a row that breaks things, after the steps that are looked at in full anyway.
BAD_BATCH = 36
BATCH = 8
ROWS = 40 * BATCH


class Root(L.Layer):  # type: ignore[misc, name-defined]
    """NaN for a negative first feature, by a line of the user's own."""

    def call(self, inputs: Any) -> Any:
        return tf.math.sqrt(inputs) * 1.0


class Swallowed(L.Layer):  # type: ignore[misc, name-defined]
    """Infinities that nobody gets to see."""

    def call(self, inputs: Any) -> Any:
        return tf.where(inputs > -100.0, inputs, tf.math.log(tf.stop_gradient(inputs) * 0.0))


class Slope(L.Layer):  # type: ignore[misc, name-defined]
    """Its output is a number, but the slope of its root at zero is none."""

    def call(self, inputs: Any) -> Any:
        return tf.sqrt(tf.nn.relu(inputs))


def rows(value: float) -> Any:
    """Ordinary rows, and in one batch `value`."""
    found = np.random.default_rng(0).uniform(0.5, 1.5, (ROWS, 4)).astype("float32")
    found[BAD_BATCH * BATCH] = value
    return found


def in_order(inputs: Any, labels: Any = None) -> Callable[[Any, list[Any]], Any]:
    labels = np.zeros(ROWS, int) if labels is None else labels

    def train(model: Any, callbacks: list[Any]) -> Any:
        return model.fit(inputs, labels, batch_size=BATCH, shuffle=False, verbose=0, callbacks=callbacks)

    return train


def root(**options: Any) -> Any:
    return dense(Root(name="root"), L.Dense(8, activation="tanh"), L.Dense(3), **options)


def told(logdir: Path, model: Any, train: Any, **options: Any) -> tuple[int, dict[str, Any]]:
    """The first fact, and its step; nothing but the checks of numbers is sampled."""
    keras.utils.set_random_seed(1)
    Run(logdir, model, train, every=1000, **options)
    facts = facts_of(logdir)
    assert facts
    return facts[0]


def facts_of(logdir: Path) -> list[tuple[int, dict[str, Any]]]:
    """Those that say where a NaN comes from, with their steps."""
    records = [record for _, record in records_in(run_files(logdir / "run"), [])]
    found = [(record.step, each) for record in records for each in record.facts]
    return [(step, each.data) for step, each in found if each.kind == "first-nonfinite"]


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("mode", ["sampled", "layers", "ops"])
def test_the_layer_is_named_at_its_step(mode: str, eager: bool, tmp_path: Path) -> None:
    """In an ordinary step, in a graph and eagerly; by "ops" with the operation and the user's line, too."""
    model = root(run_eagerly=eager)
    step, fact = told(tmp_path, model, in_order(rows(-1.0)), check_numerics=mode)
    assert (BAD_BATCH, "output", "root", "Root") == (step, fact["what"], fact["where"], fact["class_name"])
    assert fact["kind"] == "NaN"
    if mode == "ops":
        assert fact["operation"] == "sqrt"
        assert fact["site"].startswith("test_keras_numerics.py:")


def test_it_is_named_when_numbers_come_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As from an accelerator: the fact still gets to the step that it is about."""
    monkeypatch.setattr("tb_netdebug.frameworks.keras.adapter.answers_late", lambda: True)
    step, fact = told(tmp_path, root(), in_order(rows(-1.0)))
    assert (BAD_BATCH, "output", "root") == (step, fact["what"], fact["where"])


@pytest.mark.parametrize("eager", [False, True])
def test_what_goes_wrong_on_the_way_back(eager: bool, tmp_path: Path) -> None:
    """The loss is a number, a gradient is not."""
    model = dense(L.Dense(4, kernel_initializer="identity", name="first"), Slope(name="slope"), L.Dense(3),
                  optimizer=keras.optimizers.SGD(0.0), run_eagerly=eager)  # fmt: skip
    step, fact = told(tmp_path, model, in_order(rows(-1.0)), check_numerics="ops")
    assert (BAD_BATCH, "gradient") == (step, fact["what"])
    assert fact["operation"] in ("sqrtgrad", "mul", "realdiv")
    assert eager or fact["where"] == "slope"


def test_the_loss_itself(tmp_path: Path) -> None:
    """All layers give numbers; the loss makes none of them."""

    def loss(target: Any, given: Any) -> Any:
        return tf.math.log(tf.reduce_mean(tf.square(given)) * 0.0)

    model = dense(L.Dense(3), loss=loss)
    step, fact = told(tmp_path, model, in_order(rows(1.0)), check_numerics="ops")
    assert (0, "loss", "log", "-Inf") == (step, fact["what"], fact["operation"], fact["kind"])


def test_a_weight_that_was_no_number_before(tmp_path: Path) -> None:
    """It is the weight that is named."""
    model = dense(L.Input((4,)), L.Dense(3, name="only"))
    model.layers[0].kernel.assign(tf.fill([4, 3], float("nan")))
    step, fact = told(tmp_path, model, in_order(rows(1.0)), check_numerics="ops")
    assert (0, "parameter", "only.kernel") == (step, fact["what"], fact["where"])


@pytest.mark.parametrize("mode", ["sampled", "layers", "ops"])
def test_what_is_swallowed_is_not_told(mode: str, tmp_path: Path) -> None:
    """Minus infinity that no result has got anything of."""
    model = dense(L.Dense(4), Swallowed(), L.Dense(3))
    Run(tmp_path, model, in_order(rows(1.0)), check_numerics=mode)
    assert [] == facts_of(tmp_path)


@pytest.mark.parametrize("mode", ["layers", "ops"])
@pytest.mark.parametrize("value", [1.0, -1.0])
def test_checking_changes_no_number(mode: str, value: float, tmp_path: Path) -> None:
    """Losses and weights to the last bit, also when a step was made once more."""

    def build() -> Any:
        return dense(L.Dense(8), L.BatchNormalization(), L.Dropout(0.3), L.Dense(3, activation="tanh"))

    run, is_same = both(tmp_path, build, in_order(rows(value)), check_numerics=mode)
    assert is_same
    assert len(set(run.traces.counts[1:])) == 1


def test_a_step_made_once_more_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """Weights and random numbers; an optimizer that scales the loss leaves the bad step out."""

    def trained(callbacks: list[Any]) -> list[Any]:
        keras.utils.set_random_seed(2)
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01))
        model = dense(Root(name="root"), L.Dropout(0.2), L.Dense(3), optimizer=optimizer)
        in_order(rows(-1.0))(model, callbacks)
        return [*model.get_weights(), *(each.numpy() for each in optimizer.variables)]

    options: dict[str, Any] = {"check_numerics": "ops", "every": 1000, "on_finding": "ignore", "strict": True}
    watched = trained([nd.KerasCallback(tmp_path, run="run", **options)])
    assert len(facts_of(tmp_path)) == 1
    assert all(np.isfinite(each).all() for each in watched)
    assert all(map(np.array_equal, trained([]), watched))


def written_by_hand(model: Any, place: int, step: int) -> Any:
    """A callback that writes an infinity into the kernel of a layer before a step."""

    def write(batch: int, logs: Any = None) -> None:
        if batch == step:
            kernel = model.layers[place].kernel
            kernel.assign(tf.tensor_scatter_nd_update(kernel.value, [[0, 0]], [float("inf")]))

    return keras.callbacks.LambdaCallback(on_train_batch_begin=write)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("mode", ["sampled", "ops"])
def test_weights_that_nobody_looked_at_are_not_called_finite(place: int, mode: str, tmp_path: Path) -> None:
    """An infinity was written into one between two steps that are not sampled."""
    layers = [L.Dense(4, activation="relu", name="first"), L.Dense(3, name="last")]
    model = dense(L.Input((4,)), *layers, optimizer="sgd", loss="mse")

    def train(model: Any, callbacks: list[Any]) -> Any:
        labels = np.zeros((ROWS, 3), "float32")
        hand = written_by_hand(model, place, BAD_BATCH)
        return in_order(rows(1.0), labels)(model, [*callbacks, hand])

    step, fact = told(tmp_path, model, train, check_numerics=mode)
    assert (BAD_BATCH, False) == (step, fact["parameters_known"])
    assert ("first" if place == 0 else "") == fact["where"]
    told_of = [each.message for run in nd.check(tmp_path).runs for each in run.findings]
    assert not any("finite inputs and weights" in each or "the loss itself" in each for each in told_of)


def test_what_comes_of_nan_in_a_batch_is_explained_by_it(tmp_path: Path) -> None:
    """TensorFlow's relu makes zeros of NaN, so that the outputs are constant and the gradients zero."""
    model = dense(L.Input((4,)), L.Dense(4, activation="relu"), L.Dense(3), optimizer="sgd", loss="mse")
    labels = np.random.default_rng(1).normal(size=(ROWS, 3)).astype("float32")
    inputs = rows(1.0)
    inputs[10 * BATCH, 1] = np.nan
    Run(tmp_path, model, in_order(inputs, labels), every=1)
    (run,) = nd.check(tmp_path).runs
    found = {each.rule: each for each in run.findings}
    assert {"nonfinite-input", "zero-gradients", "constant-output"} <= found.keys()
    assert ["nonfinite-input"] == [each.rule for each in run.findings if each.cause is None]
    assert found["nonfinite-input"].message.startswith("The inputs of step 10 hold NaN already")


def test_a_loop_of_ones_own_is_not_told_to_follow_operations(tmp_path: Path) -> None:
    """It does so in no mode."""
    model = dense(L.Input((4,)), L.Dense(3))
    optimizer = keras.optimizers.SGD(0.01)
    with nd.watch(
        model, optimizer, logdir=tmp_path, run="run", every=1, on_finding="ignore", check_numerics="ops"
    ) as monitor:
        for step in range(3):
            inputs = rows(1.0)[:BATCH]
            labels = np.full((BATCH, 3), np.nan if step == 2 else 0.0, "float32")
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(inputs, training=True) - labels) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            monitor.step(loss=loss)
    ((step, fact),) = facts_of(tmp_path)
    assert (2, "loss", "operations are followed only in `fit`, not in custom loops") == (
        step, fact["what"], fact["why_not"],
    )  # fmt: skip
    (run,) = nd.check(tmp_path).runs
    (finding,) = (each for each in run.findings if each.rule == "nonfinite-loss")
    assert "made by one of its operations or given to it, as labels are" in finding.message
