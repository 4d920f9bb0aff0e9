"""For the tests of Keras: tiny trainings, with and without us, and what was recorded of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import tb_netdebug as nd
from tests.support.recorded import Recorded

Fit = Callable[[Any, list[Any]], Any]

L = keras.layers
X = np.random.default_rng(0).normal(size=(256, 16)).astype("float32")
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)


def two_devices() -> list[str]:
    """Two CPUs of TensorFlow's, for strategies; call it before anything is computed."""
    if len(tf.config.list_logical_devices("CPU")) < 2:
        raise RuntimeError("TensorFlow had already begun")
    return ["CPU:0", "CPU:1"]


def begin() -> None:
    """Devices and threads are settled once for the process."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    except RuntimeError:  # another test file was first
        pass


begin()


class Traces(keras.callbacks.Callback):  # type: ignore[misc]
    """How often TensorFlow had traced our versions of the step, after each batch."""

    def __init__(self, watching: Any) -> None:
        super().__init__()
        self._watching = watching
        self.counts: list[int] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.counts.append(sum(each.tracing_count() for each in self._watching.monitor._adapter.steps))


class Run:
    """A training under watch."""

    def __init__(self, logdir: Path, model: Any, fit: Fit, **options: Any) -> None:
        self.callback = nd.KerasCallback(
            logdir, run="run", **{"strict": True, "on_finding": "ignore", **options}
        )
        self.traces = Traces(self.callback)
        self.history = fit(model, [self.traces, self.callback])
        self.recorded = Recorded.of(logdir / "run")

    @property
    def slugs(self) -> set[str]:
        """Of what is wrong; remarks are left out."""
        return {each.rule for each in self.callback.findings if each.severity.name != "INFO"}

    def scalar(self, name: str) -> dict[int, float]:
        return self.recorded.scalars.get(name, {})

    def names(self, kind: str) -> set[str]:
        return {series.name for series in self.recorded.tensors if series.kind.name == kind}


def dense(*layers: Any, optimizer: Any = "adam", loss: Any = None, **options: Any) -> Any:
    """A Sequential model; from logits where no loss is given."""
    model = keras.Sequential(list(layers))
    model.compile(optimizer, loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    return model


def fit(model: Any, callbacks: list[Any], **options: Any) -> Any:
    """Three epochs of eight batches."""
    return model.fit(X, Y, **{"epochs": 3, "batch_size": 32, "verbose": 0, **options}, callbacks=callbacks)


def both(logdir: Path, build: Callable[[], Any], train: Fit, **options: Any) -> tuple[Run, bool]:
    """The same training twice; whether its losses and weights were the same to the last bit."""
    results = []
    run: Any = None
    for is_watched in (False, True):
        keras.utils.set_random_seed(2)
        model = build()
        if is_watched:
            run = Run(logdir, model, train, **options)
        history = run.history if is_watched else train(model, [])
        results.append((history.history["loss"], [each.copy() for each in model.get_weights()]))
    (loss, weights), (other_loss, other_weights) = results
    pairs = zip([loss, *weights], [other_loss, *other_weights], strict=True)
    return run, all(np.array_equal(*pair, equal_nan=True) for pair in pairs)
