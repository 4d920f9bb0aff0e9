"""Keras in training, epoch by epoch: `keras_trainee.py KIND CONTENDER FOLDER EPOCHS STEPS THREADS`.

For each line that it reads it runs an epoch of so many steps, and prints a line of JSON about it. All of it
is one call of `fit`, so TensorFlow traces at its beginning alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(KERAS_BACKEND="tensorflow", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
# At the end of the path, so that an installed package goes before the checkout's.
sys.path[:1] = []
sys.path.append(str(Path(__file__).resolve().parent.parent))

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import tb_netdebug as nd  # noqa: E402
from bench.machine import keep_freed_memory  # noqa: E402

SEED = 1
# As in models.py: each input meets another label each time it comes, so there is nothing to learn by heart.
INPUTS, LABELS, CLASSES = 8, 509, 10
SETTLING_STEPS = 3
TRACED_STEPS = 2


def mlp() -> list[Any]:
    return [
        keras.Input((784,)),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(512, activation="relu"),
        keras.layers.Dense(CLASSES),
    ]


def cnn() -> list[Any]:
    def conv(filters: int) -> Any:
        return keras.layers.Conv2D(filters, 3, padding="same", activation="relu")

    return [
        keras.Input((32, 32, 3)),
        conv(32), conv(64), keras.layers.MaxPooling2D(),
        conv(128), keras.layers.MaxPooling2D(),
        conv(128), keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(64, activation="relu"), keras.layers.Dense(CLASSES),
    ]  # fmt: skip


# The layers, and the shape of a batch.
KINDS: dict[str, tuple[Callable[[], list[Any]], tuple[int, ...]]] = {
    "mlp": (mlp, (128, 784)),
    "cnn": (cnn, (32, 32, 32, 3)),
}


class Loss(keras.losses.SparseCategoricalCrossentropy):  # type: ignore[misc]  # Keras is untyped
    """Counts how often Python runs through the training step: in a graph only tracing does."""

    traces = 0

    def call(self, y_true: Any, y_pred: Any) -> Any:
        Loss.traces += 1
        return super().call(y_true, y_pred)


class Baton(keras.callbacks.Callback):  # type: ignore[misc]  # Keras is untyped
    """The last of the callbacks: waits for its turn, and tells the times. The first steps do not count."""

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__()
        self._flush = flush
        self._ends: list[float] = []
        self._steps = 0
        self._traced = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._ends = []
        if not sys.stdin.readline():
            sys.exit("nobody asks for more")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._ends.append(time.perf_counter())
        self._steps += 1
        if self._steps == TRACED_STEPS:
            self._traced = Loss.traces

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._flush()
        began, *others = self._ends[SETTLING_STEPS - 1 :]
        whole = (time.perf_counter() - began) / len(others)
        secs = np.diff([began, *others]).tolist()
        told = {"whole": whole, "secs": secs, "late_traces": Loss.traces - self._traced}
        told |= {"steps": self._steps, "parameters": self.model.count_params()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def watcher(name: str, folder: Path) -> tuple[list[Any], Callable[[], None]]:
    """The callbacks of a contender, and what brings its records to the file."""
    if name == "tensorboard":
        return [keras.callbacks.TensorBoard(str(folder), histogram_freq=1, update_freq=1)], lambda: None
    if name.startswith("netdebug"):
        options = {"every": 1} if name == "netdebug_everything" else {}
        ours = nd.KerasCallback(folder, run="run", **options)

        def flush() -> None:
            assert ours.monitor is not None  # in the middle of `fit` there is one
            ours.monitor.flush()

        return [ours], flush
    return [], lambda: None


def batches(shape: tuple[int, ...]) -> Any:
    made = np.random.default_rng(SEED)
    inputs = made.normal(size=(INPUTS, *shape)).astype("float32")
    labels = made.integers(0, CLASSES, (LABELS, shape[0]))
    parts = [tf.data.Dataset.from_tensor_slices(each).repeat() for each in (inputs, labels)]
    return tf.data.Dataset.zip(tuple(parts)).prefetch(2)


def main(kind: str, contender: str, folder: Path, epochs: int, steps: int, threads: int) -> None:
    keep_freed_memory()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    keras.utils.set_random_seed(SEED)
    layers, shape = KINDS[kind]
    model = keras.Sequential(layers())
    model.compile(keras.optimizers.Adam(1e-4), Loss(from_logits=True))
    callbacks, flush = watcher(contender, folder)
    model.fit(
        batches(shape),
        epochs=epochs,
        steps_per_epoch=steps + SETTLING_STEPS,
        verbose=0,
        callbacks=[*callbacks, Baton(flush)],
    )


if __name__ == "__main__":
    kind, contender, folder, *numbers = sys.argv[1:]
    main(kind, contender, Path(folder), *map(int, numbers))
