"""Nobody's Python runs a second time in a training with Keras, and its numbers are those without us."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tb_netdebug.frameworks.keras.authorship import is_all_of_keras
from tests.support.keras_runs import X, Y, dense

L = keras.layers
OPTIONS: dict[str, Any] = {"run": "run", "on_finding": "ignore", "strict": True, "every": 3}
CHECKS = ("sampled", "layers", "ops")


class Counting(L.Layer):  # type: ignore[misc, name-defined]
    """Counts how often its Python runs."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.calls = L.Dense(8, activation="tanh"), 0

    def call(self, inputs: Any) -> Any:
        self.calls += 1
        return self.dense(inputs)


class Rolling(Counting):
    """Draws from a generator that no variable holds."""

    def call(self, inputs: Any) -> Any:
        return super().call(inputs) + tf.random.normal([1, 8])


def fit(model: Any, callbacks: list[Any]) -> list[float]:
    losses: list[float] = []
    each = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: losses.append(logs["loss"]))
    model.fit(X, Y, batch_size=60, epochs=2, verbose=0, callbacks=[each, *callbacks])
    return losses


def built(layer: type[Counting] = Counting, **options: Any) -> tuple[Any, Counting]:
    keras.utils.set_random_seed(3)
    counting = layer()
    return dense(counting, L.Dense(3), **options), counting


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("layer", [Counting, Rolling])
def test_python_runs_as_often_as_without(layer: type[Counting], check: str, tmp_path: Path) -> None:
    """In a graph its Python runs while it is traced: once more would move what it counts, and
    operations with a
    generator of their own would begin anew."""
    model, alone = built(layer)
    expected = fit(model, []), [each.tobytes() for each in model.get_weights()]
    model, watched = built(layer)
    found = fit(model, [nd.KerasCallback(tmp_path, check_numerics=check, **OPTIONS)])
    assert expected == (found, [each.tobytes() for each in model.get_weights()])
    assert alone.calls == watched.calls


@pytest.mark.parametrize("layer", [Counting, Rolling])
def test_what_was_traced_is_kept(layer: type[Counting], tmp_path: Path) -> None:
    """A fit without us after one with us, and one more with us: nothing is traced again, in either place."""
    outcomes = []
    for is_watched in (False, True):
        model, counting = built(layer)
        callback = [nd.KerasCallback(tmp_path, **OPTIONS)] if is_watched else []
        losses = [fit(model, callback), fit(model, []), fit(model, callback)]
        outcomes.append((losses, counting.calls, [each.tobytes() for each in model.get_weights()]))
    assert outcomes[0] == outcomes[1]


def test_what_was_traced_without_us_is_not_traced_again(tmp_path: Path) -> None:
    """It is said what is not seen, and what to do; of a model that is all of Keras nobody's code would
    run."""
    model, counting = built()
    fit(model, [])
    calls = counting.calls
    with pytest.warns(Warning, match="traced it before NetDebug was attached"):
        fit(model, [nd.KerasCallback(tmp_path, **OPTIONS)])
    assert calls == counting.calls
    assert not is_all_of_keras(model)
    assert is_all_of_keras(dense(L.Dense(3, activation="relu"), L.Dropout(0.1), L.Dense(3)))
    assert not is_all_of_keras(dense(L.Dense(3, activation=lambda given: given * 2.0)))
    assert not is_all_of_keras(dense(L.Dense(3), loss=lambda target, given: tf.reduce_mean(given)))


def test_an_error_of_the_user_runs_nothing_twice(tmp_path: Path) -> None:
    """It reaches them as it is."""

    class Failing(Counting):
        def call(self, inputs: Any) -> Any:
            if tf.inside_function() and not tf.executing_eagerly() and "scratch" not in inputs.graph.name:
                self.calls += 1
                raise KeyError("mine")
            return self.dense(inputs)

    model, counting = built(Failing)
    callback = nd.KerasCallback(tmp_path, **OPTIONS)
    with pytest.raises(KeyError, match="mine"):
        fit(model, [callback])
    callback.close()
    assert 1 == counting.calls


def test_a_step_that_makes_variables(tmp_path: Path) -> None:
    """TensorFlow traces it twice by itself; it trains as without us, and what is not seen is said."""

    def trained(callbacks: list[Any]) -> Any:
        class Model(keras.Sequential):  # type: ignore[misc, name-defined]
            scale: Any = None

            def train_step(self, data: Any) -> Any:
                if Model.scale is None:
                    Model.scale = tf.Variable(tf.reduce_mean(data[0]))
                Model.scale.assign_add(1.0)
                return super().train_step(data)

        keras.utils.set_random_seed(3)
        model = Model([L.Dense(8, activation="relu"), L.Dense(3)])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return fit(model, callbacks), Model.scale.numpy()

    expected = trained([])
    with pytest.warns(Warning, match="creates variables"):
        assert expected == trained([nd.KerasCallback(tmp_path, **OPTIONS)])


JAX = """
import json, sys
import keras, numpy as np
import tb_netdebug as nd
L = keras.layers
X = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
told = {}

class Counting(L.Layer):
    def __init__(self):
        super().__init__()
        self.dense, self.calls = L.Dense(4, activation="tanh"), 0
    def call(self, inputs):
        self.calls += 1
        return self.dense(inputs)

def trained(watched):
    keras.utils.set_random_seed(3)
    counting = Counting()
    model = keras.Sequential([L.Input((6,)), counting, L.Dropout(0.2), L.Dense(1)])
    model.compile("adam", "mse")
    options = {"run": "run", "on_finding": "ignore", "strict": True, "every": 2}
    calls = [nd.KerasCallback(sys.argv[1], **options)] if watched else []
    losses = [model.fit(X, X[:, :1], batch_size=24, epochs=2, verbose=0, callbacks=each).history
              for each in (calls, [], calls)]
    weights = [each.tobytes().hex() for each in model.get_weights()]
    return losses, counting.calls, weights

print(json.dumps([trained(False), trained(True)]))
"""


def test_on_jax_the_step_is_traced_once(tmp_path: Path) -> None:
    """Looks and steps come of one trace, also when nobody watches any more."""
    ran = subprocess.run(
        [sys.executable, "-c", JAX, str(tmp_path)],
        env={**os.environ, "KERAS_BACKEND": "jax", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    without, watched = json.loads(ran.stdout)
    assert without == watched
    assert np.isfinite(without[0][0]["loss"]).all()
