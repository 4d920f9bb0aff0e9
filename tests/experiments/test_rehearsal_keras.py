"""Keras and TensorFlow in a held process: checkpoints of C++, and the stop before a step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tb_netdebug.experiments.rehearsal.report import RehearsalReport
from tests.experiments.test_rehearsal_files import digest, place, run

__all__ = ["place", "run"]  # fixtures

REHEARSE = """
import json, sys
from tb_netdebug.training.zero_code.script import Script
from tb_netdebug.experiments.rehearsal.stop import run_to_step

def use(stopped):
    main = vars(sys.modules["__main__"])
    models = [[type(each).__name__ for each in subject.models.values()] for subject in stopped.subjects]
    optimizers = [type(each).__name__ for subject in stopped.subjects for each in subject.optimizers]
    print(json.dumps([stopped.where, models, optimizers, main["steps"], main["weights"]()]))
    return 0

run_to_step(Script("train.py"), use, step={step})
"""
TAPE = """
import tensorflow as tf, keras
saved = tf.train.Checkpoint(v=tf.Variable(3.0))
path = saved.write("tf/ckpt")
fresh = tf.train.Checkpoint(v=tf.Variable(0.0))
fresh.read(path).assert_consumed()
assert float(fresh.v) == 3.0
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
optimizer = keras.optimizers.SGD(0.1)
steps = 0
weights = lambda: float(tf.reduce_sum(model.trainable_weights[0]))
@tf.function
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
while steps < 5:
    try:
        step(tf.ones((4, 2)))
        steps += 1
    except Exception:
        pass
"""
FIT = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras, numpy as np
model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1, kernel_initializer="ones")])
model.compile("sgd", "mse")
steps = 0
weights = lambda: float(model.get_weights()[0].sum())
class Counting(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        global steps
        steps += 1
model.fit(np.ones((64, 2)), np.zeros(64), batch_size=8, epochs=2, verbose=0, callbacks=[Counting()])
"""
CHECKPOINT = TAPE.partition("model =")[0]


def test_a_tape_in_an_overlay(
    place: Path, run: Callable[[str, str], RehearsalReport], capfd: pytest.CaptureFixture[str]
) -> None:
    """Checkpoints are read back; a `tf.function` ends before its optimizer has changed a weight."""
    (place / "train.py").write_text(TAPE)
    before = digest(place)
    report = run(REHEARSE.format(step=1), "overlay")
    caught = capfd.readouterr()
    assert ["train.py:19", [[]], ["SGD"], 0, 2.0] == json.loads(caught.out.splitlines()[-1]), caught.err
    assert {"tf/ckpt.index", "tf/ckpt.data-00000-of-00001"} <= {
        os.path.relpath(each, place) for each in report.written
    }
    assert before == digest(place)


def test_checkpoints_under_landlock(
    place: Path, run: Callable[[str, str], RehearsalReport], capfd: pytest.CaptureFixture[str]
) -> None:
    """C++ is refused by the kernel, with its own words, and nothing is written."""
    before = digest(place)
    report = run(CHECKPOINT, "landlock")
    assert before == digest(place)
    assert 1 == report.status
    assert "Permission denied" in capfd.readouterr().err


def test_fit_stops_before_a_batch(
    place: Path, run: Callable[[str, str], RehearsalReport], capfd: pytest.CaptureFixture[str]
) -> None:
    """The third one: two were trained."""
    (place / "train.py").write_text(FIT)
    run(REHEARSE.format(step=3), "overlay")
    caught = capfd.readouterr()
    where, models, _, steps, weights = json.loads(caught.out.splitlines()[-1])
    assert ("train.py:13", 2) == (where, steps), caught.err
    assert ["Sequential"] in models
    assert weights < 2.0
