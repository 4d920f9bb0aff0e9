"""Trainings of Keras on the backend that KERAS_BACKEND names; prints what became of them as JSON.

KERAS_BACKEND=jax python keras_backend_runs.py FOLDER
"""

from __future__ import annotations

import io
import json
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import keras
import numpy as np

import tb_netdebug as nd
from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.debugger.place import END, Place
from tests.support.keras_stepping import Script, stepped

L = keras.layers
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
X = np.random.default_rng(0).normal(size=(320, 16)).astype("float32")
Y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)

# A busy machine is no sick network.
OF_TIME = ("step-time-outlier", "data-wait")

Fit = Callable[[Any, list[Any]], Any]


class Careless(keras.Model):  # type: ignore[misc]
    """Does not tell its layers that it is trained; a backend may or may not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop, self.last = L.Dense(32, activation="relu"), L.Dropout(0.5), L.Dense(3)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.last(self.drop(self.first(inputs)))


def dense(*layers: Any, optimizer: Any = "adam", loss: Any = LOSS, **options: Any) -> Any:
    model = keras.Sequential(list(layers))
    model.compile(optimizer, loss, **options)
    return model


def fit(model: Any, callbacks: list[Any], inputs: Any = X, **options: Any) -> Any:
    return model.fit(inputs, Y[: len(inputs)], **{"epochs": 4, "verbose": 0, **options}, callbacks=callbacks)


def plain() -> Any:
    return dense(
        L.Input((16,)), L.Dense(24, activation="relu", name="first"), L.BatchNormalization(name="norm"),
        L.Dropout(0.3, name="drop"), L.Dense(3, name="last"), metrics=["accuracy"],
    )  # fmt: skip


def several() -> Any:
    one, two = L.Input((8,), name="one"), L.Input((8,), name="two")
    shared = L.Dense(8, activation="elu", name="shared")
    hidden = L.Concatenate()([shared(one), shared(two)])
    outputs = {"classes": L.Dense(3, activation="softmax")(hidden), "number": L.Dense(1)(hidden)}
    model = keras.Model({"one": one, "two": two}, outputs)
    model.compile("sgd", {"classes": "sparse_categorical_crossentropy", "number": "mse"})
    return model


def fit_several(model: Any, callbacks: list[Any]) -> Any:
    inputs = {"one": X[:, :8], "two": X[:, 8:]}
    targets = {"classes": Y, "number": X[:, :1]}
    return model.fit(inputs, targets, epochs=2, verbose=0, callbacks=callbacks)


def mixed() -> Any:
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        return dense(L.Embedding(20, 8), L.LSTM(8), L.Dense(3))
    finally:
        keras.mixed_precision.set_global_policy("float32")


def fit_mixed(model: Any, callbacks: list[Any]) -> Any:
    return fit(model, callbacks, abs(X[:, :6] * 5).astype(int) % 20, epochs=2)


def broken() -> Any:
    found = X.copy()
    found[100, 3] = np.nan
    return found


SAME: dict[str, tuple[Callable[[], Any], Fit]] = {
    "plain": (plain, lambda model, calls: fit(model, calls, validation_data=(X[:32], Y[:32]))),
    "several": (several, fit_several),
    "mixed": (mixed, fit_mixed),
}


def relu(*layers: Any, **options: Any) -> Any:
    return dense(L.Dense(32, activation="relu"), *layers, **options)


SICK: dict[str, tuple[Callable[[], Any], Fit]] = {
    "learning-rate-high": (lambda: relu(L.Dense(3), optimizer=keras.optimizers.SGD(30.0)), fit),
    "learning-rate-zero": (lambda: relu(L.Dense(3), optimizer=keras.optimizers.SGD(0.0)), fit),
    "loss-input-softmaxed": (lambda: relu(L.Dense(3, activation="softmax")), fit),
    "loss-input-logits": (lambda: relu(L.Dense(3), loss="sparse_categorical_crossentropy"), fit),
    "nonfinite-input": (lambda: relu(L.Dense(3)), lambda model, calls: fit(model, calls, broken())),
}


class Run:
    """A training under watch."""

    def __init__(self, folder: Path, model: Any, train: Fit, **options: Any) -> None:
        self.model = model
        self.callback = nd.KerasCallback(
            folder, run="run", **{"strict": True, "on_finding": "ignore", **options}
        )
        self.history = train(model, [self.callback])
        self.recorded = read_run(folder / "run").ranks[0]
        told = [each.rule for each in self.callback.findings if each.severity.name != "INFO"]
        self.slugs = [rule for rule in told if rule not in OF_TIME]


def same(folder: Path, build: Callable[[], Any], train: Fit) -> dict[str, Any]:
    """With us and without: whether losses and weights are the same to the last bit; and what was recorded."""
    keras.utils.set_random_seed(2)
    model = build()
    expected = train(model, []).history, model.get_weights()
    keras.utils.set_random_seed(2)
    run = Run(folder, build(), train)
    kinds: dict[str, list[str]] = {}
    for series in run.recorded.tensors:
        kinds.setdefault(series.kind.name, []).append(series.name)
    weights = zip(expected[1], run.model.get_weights(), strict=True)
    return {
        "same": expected[0] == run.history.history and all(np.array_equal(*pair) for pair in weights),
        "slugs": run.slugs,
        "kinds": kinds,
        "steps": {name: len(column.values) for name, column in run.recorded.scalars.items()},
    }


def losses(folder: Path) -> dict[str, Any]:
    """Of each batch the loss that Keras's mean hides; the weights do not change."""
    keras.utils.set_random_seed(2)
    model = dense(L.Input((16,)), L.Dense(3), optimizer=keras.optimizers.SGD(0.0))
    expected = [
        float(LOSS(Y[at : at + 32], model.predict(X[at : at + 32], verbose=0))) for at in range(0, 320, 32)
    ]
    run = Run(folder, model, lambda model, calls: fit(model, calls, epochs=1, shuffle=False), every=4)
    return {"expected": expected, "found": run.recorded.scalars["loss"].values.tolist()}


def raised(folder: Path) -> dict[str, Any]:
    """A training that a finding ends leaves a model that works."""
    model = SICK["learning-rate-high"][0]()
    try:
        Run(folder, model, lambda model, calls: fit(model, calls, epochs=40), on_finding="raise")
    except FindingError as error:
        return {"rule": error.finding.rule, "shape": list(model.predict(X[:4], verbose=0).shape)}
    return {}


def origin(folder: Path) -> list[Any]:
    """The layer in which the first NaN arises; on torch also when no sample was due."""
    inputs = np.ones((320, 16), "float32")
    inputs[32 * 6] = -5.0
    model = dense(L.Input((16,)), L.Lambda(keras.ops.sqrt, name="root"), L.Dense(3))
    every = 1000 if keras.backend.backend() == "torch" else 1
    train: Fit = lambda model, calls: fit(model, calls, inputs, epochs=1, shuffle=False)  # noqa: E731
    found = {each.rule: each for each in Run(folder, model, train, every=every).callback.findings}
    told = found.get("nonfinite-activation")
    return [] if told is None else [told.where[0], told.first_step]


def forgotten(folder: Path) -> list[str]:
    """What is said of a `fit` under `nd.watch` that nobody ends the steps of: on the way, and in the run."""
    said = io.StringIO()
    model = dense(L.Input((16,)), L.Dense(3))
    with redirect_stderr(said), nd.watch(model, logdir=folder, run="run"):
        model.fit(X, Y, batch_size=16, epochs=2, verbose=0)
    return [said.getvalue(), str(nd.check(folder).runs[0].reason)]


def stepping(folder: Path) -> dict[str, Any]:
    """Where a training with a debugger stops in its first batch, and what it has within reach there; at the
    end of each batch the learning rate is doubled."""
    found: dict[str, Any] = {"rates": [], "kinds": [], "is_right": []}

    def look(bench: Any, place: Place) -> None:
        if place.phase != END:
            return
        kernel, update = (
            bench.tensor(f"{kind}:last.kernel").part((slice(None), slice(None)))
            for kind in ("weight", "update")
        )
        if not found["rates"]:
            found["is_right"] = [bool(np.allclose(kernel - update, start)), bool(update.any())]
        found["kinds"].append(sorted({each.kind for each in bench.entries()}))
        rate = bench.learning_rates()[0]["value"]
        found["rates"].append(round(rate, 6))
        bench.set_learning_rate(0, None, 2 * rate)

    keras.utils.set_random_seed(2)
    momentum = keras.optimizers.SGD(0.01, momentum=0.9)
    model = dense(L.Input((16,)), L.Dense(8, name="first"), L.Dense(3, name="last"), optimizer=momentum)
    start = model.get_weights()[2]
    script = Script(look)
    fit(model, stepped(folder, script), X[:64], epochs=1)
    places = script.told[: script.told.index("before end of all") + 1]
    return {**found, "can": script.bench.can, "cannot": script.bench.cannot, "places": places}


def main(folder: Path) -> None:
    if keras.backend.backend() == "torch":
        import torch

        torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {name: same(folder / name, *case) for name, case in SAME.items()}
    keras.utils.set_random_seed(1)
    found["sick"] = {slug: Run(folder / slug, build(), train).slugs for slug, (build, train) in SICK.items()}
    careless = Careless()
    careless.compile("adam", LOSS)
    found["careless"] = Run(folder / "careless", careless, fit).slugs
    found["losses"], found["raised"] = losses(folder / "losses"), raised(folder / "raised")
    found["origin"] = origin(folder / "origin")
    found["forgotten"] = forgotten(folder / "forgotten")
    found["stepping"] = stepping(folder / "stepping")
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
