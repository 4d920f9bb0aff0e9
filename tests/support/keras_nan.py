"""Runs of Keras with a NaN in each place, on the backend that KERAS_BACKEND names: keras_nan.py FOLDER

Prints what was recorded of its origin as JSON: by place the step and the fact; every step is sampled.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.run import run_files
from tb_netdebug.judging.recorded import records_in

L, ops = keras.layers, keras.ops
PLACES = ("input", "label", "layer", "between", "loss", "gradient")
BAD_BATCH, BATCH = 20, 8
BAD = BAD_BATCH * BATCH


class Trouble(L.Layer):  # type: ignore[misc, name-defined]
    """Takes the root of a negative number, or one whose slope is infinite where its factor is zero."""

    def __init__(self, place: str) -> None:
        super().__init__(name="trouble")
        self.place = place

    def call(self, given: Any) -> Any:
        inputs, hidden = given
        if self.place == "layer":
            return hidden + 0.0 * ops.sqrt(inputs[:, :1])
        if self.place == "gradient":
            return hidden + ops.sqrt(ops.abs(hidden) * ops.maximum(inputs[:, :1], 0.0))
        return hidden


class Model(keras.Model):  # type: ignore[misc]
    def __init__(self, place: str) -> None:
        super().__init__()
        self.place = place
        self.first, self.last = L.Dense(4, name="first"), L.Dense(1, name="last")
        self.trouble = Trouble(place)

    def call(self, inputs: Any, training: bool = False) -> Any:
        hidden = self.trouble((inputs, self.first(inputs)))
        if self.place == "between":
            hidden = hidden + 0.0 * ops.log(inputs[:, :1])
        return self.last(hidden)


def loss_of(place: str) -> Any:
    def loss(target: Any, given: Any) -> Any:
        found = ops.mean(ops.square(target - given))
        return found + 0.0 * ops.mean(ops.sqrt(target)) if place == "loss" else found

    return loss


def data(place: str) -> tuple[Any, Any]:
    x = np.random.default_rng(0).uniform(0.5, 1.5, (40 * BATCH, 4)).astype("float32")
    y = x[:, :1].copy()
    if place == "input":
        x[BAD, 1] = np.nan
    elif place in ("label", "loss"):
        y[BAD] = np.nan if place == "label" else -1.0
    else:
        x[BAD, 0] = -1.0
    return x, y


def origin(place: str, folder: Path, *, eager: bool) -> tuple[int, dict[str, Any]] | None:
    keras.utils.set_random_seed(1)
    model, (x, y) = Model(place), data(place)
    model.compile(keras.optimizers.SGD(0.01), loss_of(place), run_eagerly=eager)
    callback = nd.KerasCallback(
        folder, run="run", check_numerics="ops", every=1, on_finding="ignore", strict=True
    )
    model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0, callbacks=[callback])
    callback.close()
    records = [record for _, record in records_in(run_files(folder / "run"), [])]
    facts = [(record.step, each) for record in records for each in record.facts]
    return next(((step, each.data) for step, each in facts if each.kind == "first-nonfinite"), None)


def main(folder: Path) -> None:
    styles = (False, True) if keras.backend.backend() == "tensorflow" else (False,)
    found = {
        f"{place} eagerly" if eager else place: origin(place, folder / f"{place}-{eager}", eager=eager)
        for place in PLACES
        for eager in styles
    }
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
