"""`netdebug run` and scripts of Keras: what is trained is found, and the script is what it is without us."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.zero_code.driver import ZeroCode
from tb_netdebug.training.zero_code.run_summary import closing_words
from tests.cli.test_run_command import python, watched
from tests.support.keras_runs import X, Y, dense, fit
from tests.support.recorded import Recorded

L = keras.layers
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@contextmanager
def zero_code(logdir: Path, **options: Any) -> Iterator[ZeroCode]:
    """What is trained inside is watched as `netdebug run` does it; nothing of it stays."""
    wishes = {"logdir": logdir, "run": "run", "every": 2, "on_finding": "ignore", **options}
    found = ZeroCode(Settings(**wishes))
    before = hooks()
    found.install()
    try:
        yield found
    finally:
        found.close()
    assert 0 == found.faults
    assert before == hooks()


def hooks() -> list[Any]:
    trainer = keras.Model
    return [trainer.fit, trainer.train_on_batch, keras.layers.Layer.__call__, tf.GradientTape.gradient]


def network(rate: float = 0.01) -> Any:
    layers = [L.Input((16,)), L.Dense(8, activation="relu"), L.Dropout(0.2), L.Dense(3)]
    return dense(*layers, optimizer=keras.optimizers.SGD(rate), metrics=["accuracy"])


def kinds(recorded: Recorded) -> set[str]:
    return {series.kind.name for series in recorded.tensors}


def test_fit_is_found_and_computes_the_same(tmp_path: Path) -> None:
    """Two fits of a model are one run; metrics and evaluations are in it."""
    results = []
    for is_watched in (False, True):
        keras.utils.set_random_seed(2)
        with zero_code(tmp_path) if is_watched else contextmanager(lambda: iter([None]))() as found:
            model = network()
            first = fit(model, [], validation_data=(X[:32], Y[:32]))
            second = fit(model, None, epochs=1)
        results.append((first.history, second.history))
    assert results[0] == results[1]
    assert [32] == [each.steps for each in found.trainings]
    recorded = Recorded.of(tmp_path / "run")
    assert list(range(32)) == sorted(recorded.scalars["loss"])
    assert 3 == len(recorded.scalars["scalar/val_loss"])
    assert {"WEIGHT", "UPDATE", "GRADIENT", "ACTIVATION"} <= kinds(recorded)
    assert "verdict healthy" in closing_words(found)


def test_train_on_batch_and_several_models_are_runs_of_their_own(tmp_path: Path) -> None:
    """Models that take turns, as those of a GAN do, and what is wrong with one of them."""
    with zero_code(tmp_path) as found:
        healthy, sick = network(), network(1e4)
        for start in range(0, 256, 16):
            for model in (healthy, sick):
                model.train_on_batch(X[start : start + 16], Y[start : start + 16])
    assert [16, 16] == [each.steps for each in found.trainings]
    slugs = [{finding.rule for finding in each.findings} for each in found.trainings]
    assert set() == slugs[0] & {"nonfinite-loss", "nonfinite-weight"}
    assert {"nonfinite-loss", "nonfinite-weight"} <= slugs[1]


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.filterwarnings("ignore:NetDebug")
def test_a_loop_with_a_tape_is_found(in_graph: bool, tmp_path: Path) -> None:
    """By its first step; the loss is what the tape differentiates, or what the tf.function returns."""
    model = keras.Sequential([L.Input((16,)), L.Dense(8, activation="relu"), L.Dense(3)])
    optimizer = keras.optimizers.Adam(0.01)

    def step(inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = LOSS(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return {"accuracy": tf.constant(0.5), "loss": loss}

    run = tf.function(step) if in_graph else step
    with zero_code(tmp_path) as found:
        losses = [
            float(run(tf.constant(X[at : at + 16]), tf.constant(Y[at : at + 16]))["loss"])
            for at in range(0, 256, 16)
        ]
    assert [15] == [each.steps for each in found.trainings]
    recorded = Recorded.of(tmp_path / "run")
    assert losses[1:] == list(recorded.scalars["loss"].values())
    assert ({"GRADIENT", "ACTIVATION"} <= kinds(recorded)) is not in_graph
    assert {"WEIGHT", "UPDATE"} <= kinds(recorded)
    assert 0.01 == pytest.approx(recorded.scalars["lr/0"][0])


def test_a_callback_of_ours_counts_and_we_stand_aside(tmp_path: Path) -> None:
    """One recording, made by the callback."""
    with zero_code(tmp_path / "ours") as found:
        fit(network(), [nd.KerasCallback(tmp_path / "theirs", run="run", on_finding="ignore")], epochs=1)
    assert found.stands_aside
    assert [] == found.trainings
    assert 8 == len(Recorded.of(tmp_path / "theirs/run").scalars["loss"])


def test_a_model_is_let_go_when_another_is_fit(tmp_path: Path) -> None:
    """The folds of a cross validation do not pile up in memory; one that comes back goes on with its run."""
    with zero_code(tmp_path) as found:
        kept, gone = network(), network()
        fit(kept, [], epochs=1)
        fit(gone, [], epochs=1)
        reference = weakref.ref(gone)
        del gone
        fit(kept, [], epochs=1)
        keras.backend.clear_session()
        gc.collect()
        assert reference() is None
    assert [16, 8] == [each.steps for each in found.trainings]
    assert list(range(16)) == sorted(Recorded.of(tmp_path / "run").scalars["loss"])


def test_a_script_ends_as_under_python(tmp_path: Path) -> None:
    """Keras on torch and torch in one script: its numbers, status and traceback are its own."""
    expected = python("keras_fit.py")
    actual = watched("keras_fit.py", options=("--logdir", str(tmp_path)))
    assert (1, expected.output) == (expected.code, actual.output) == (actual.code, actual.output)
    assert own(expected.errors) == own(actual.errors)
    assert "4 runs recorded: 1 sick, " in actual.closing
    assert "learning-rate-high" in actual.closing


def own(errors: str) -> str:
    """What the script wrote: less what is told at once, and remarks of TensorFlow with times in them."""
    return re.sub(r"^(NetDebug: |I0000 |WARNING: All log ).*\n", "", errors, flags=re.MULTILINE)
