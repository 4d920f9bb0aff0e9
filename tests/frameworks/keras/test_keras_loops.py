"""Keras without `fit`: loops with GradientTape, train_on_batch; and trainings that end early."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tb_netdebug.core.records.graph import decode_graph
from tb_netdebug.frameworks.keras.memory import device_memory
from tests.support.keras_runs import Run, X, Y, dense, fit
from tests.support.recorded import Recorded

L = keras.layers
ROOT = Path(__file__).resolve().parents[3]
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def network() -> Any:
    keras.utils.set_random_seed(3)
    return keras.Sequential([L.Input((16,)), L.Dense(8, activation="relu"), L.Dropout(0.2), L.Dense(3)])


def loop(model: Any, optimizer: Any, monitor: Any, *, in_graph: bool) -> list[float]:
    """Twelve steps; the losses."""

    def step(inputs: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = LOSS(labels, model(inputs, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    run = tf.function(step) if in_graph else step
    losses = []
    for number in range(12):
        rows = slice(number * 16, number * 16 + 16)
        loss = run(tf.constant(X[rows]), tf.constant(Y[rows]))
        losses.append(float(loss))
        if monitor is not None:
            monitor.step(loss=loss)
    return losses


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.filterwarnings("ignore:NetDebug")
def test_a_loop_of_ones_own_is_watched(in_graph: bool, tmp_path: Path) -> None:
    """Eagerly all is seen; in a tf.function of the user's weights, updates and the loss."""
    model = network()
    expected = loop(model, keras.optimizers.Adam(0.01), None, in_graph=in_graph)
    model = network()
    optimizer = keras.optimizers.Adam(0.01)
    options: dict[str, Any] = {"strict": True, "on_finding": "ignore"}
    with nd.watch(model, optimizer, logdir=tmp_path, run="run", **options) as monitor:
        assert expected == loop(model, optimizer, monitor, in_graph=in_graph)
    recorded = Recorded.of(tmp_path / "run")
    kinds = {series.kind.name for series in recorded.tensors}
    assert len(recorded.scalars["loss"]) == 12
    assert {"WEIGHT", "UPDATE"} <= kinds
    assert ({"GRADIENT", "ACTIVATION"} <= kinds) is not in_graph
    assert ("gradient_norm" in recorded.scalars) is not in_graph


def test_train_on_batch_is_watched(tmp_path: Path) -> None:
    """It goes through the same function as `fit`."""
    model = dense(L.Input((16,)), L.Dense(8, activation="relu"), L.Dense(3))
    with nd.watch(model, logdir=tmp_path, run="run", strict=True, on_finding="ignore") as monitor:
        for number in range(6):
            model.train_on_batch(X[number * 32 :][:32], Y[number * 32 :][:32])
            monitor.step()
    recorded = Recorded.of(tmp_path / "run")
    kinds = {series.kind.name for series in recorded.tensors}
    assert {"WEIGHT", "UPDATE", "GRADIENT", "ACTIVATION"} <= kinds
    assert len(recorded.scalars["loss"]) == 6


def test_a_loop_without_a_monitor_step_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After twenty updates, and at the end."""
    model, optimizer = network(), keras.optimizers.Adam(0.01)
    with nd.watch(model, optimizer, logdir=tmp_path, run="run"):
        loop(model, optimizer, None, in_graph=False)
        assert "" == capsys.readouterr().err
        loop(model, optimizer, None, in_graph=False)
        assert "the optimizer stepped 20 times and monitor.step was not called" in capsys.readouterr().err
    assert "the optimizer stepped 24 times" in capsys.readouterr().err
    (report,) = nd.check(tmp_path).runs
    assert "unknown" == report.verdict
    assert "the optimizer stepped 24 times" in str(report.reason)


def test_fit_without_a_callback_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the callback to pass; the end of an epoch is no batch."""
    model = dense(L.Input((16,)), L.Dense(3))
    with nd.watch(model, logdir=tmp_path, run="run"):
        model.fit(X, Y, batch_size=16, epochs=2, verbose=0)
        said = capsys.readouterr().err
        assert 1 == said.count("Keras trained 20 batches and monitor.step was not called")
        assert "model.fit(..., callbacks=[nd.KerasCallback()])" in said
    assert "stepped 32 times" in capsys.readouterr().err
    assert "KerasCallback" in str(nd.check(tmp_path).runs[0].reason)


def test_the_callback_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It calls the step by itself."""
    callback = nd.KerasCallback(tmp_path, on_finding="ignore")
    dense(L.Input((16,)), L.Dense(3)).fit(X, Y, batch_size=8, verbose=0, callbacks=[callback])
    assert "monitor.step" not in capsys.readouterr().err


class Stop(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    """Ends a training as Ctrl-C does."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 4:
            raise KeyboardInterrupt


def test_a_training_that_is_interrupted_leaves_the_model_usable(tmp_path: Path) -> None:
    """The next fit works, with us and without."""
    model = dense(L.Input((16,)), L.Dense(8, activation="relu"), L.Dense(3))
    callback = nd.KerasCallback(tmp_path, run="run", strict=True, on_finding="ignore")
    with pytest.raises(KeyboardInterrupt):
        fit(model, [callback, Stop()])
    fit(model, [])
    fit(model, [callback])
    assert "make_train_function" not in model.__dict__
    assert len(Recorded.of(tmp_path / "run").scalars["loss"]) == 5 + 24


def test_an_error_of_the_users_step_is_his_own(tmp_path: Path) -> None:
    """Tracing our version fails with the user's error, not with one of ours."""

    class Wrong(keras.Model):  # type: ignore[misc, name-defined]
        def call(self, inputs: Any) -> Any:
            raise ArithmeticError("wrong")

    model = Wrong()
    model.compile("adam", LOSS)
    callback = nd.KerasCallback(tmp_path, run="run", on_finding="ignore")
    with pytest.raises(ArithmeticError, match="wrong"):
        fit(model, [callback])
    callback.close()


def test_the_graph_has_layers_in_order_with_their_data_flow(tmp_path: Path) -> None:
    """Names, shapes with the batch size, parameters, and what goes where."""
    seen: list[bytes] = []

    class Look(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_begin(self, logs: Any = None) -> None:
            adapter = callback.monitor._adapter  # type: ignore[union-attr]
            take = adapter.graph
            adapter.graph = lambda: (seen.append(found) or found) if (found := take()) else None  # type: ignore[method-assign, func-returns-value]

    callback = nd.KerasCallback(tmp_path, run="run", strict=True, on_finding="ignore")
    first = L.Dense(8, activation="relu", name="first")
    model = dense(L.Input((16,)), first, L.Dropout(0.1, name="drop"), L.Dense(3, name="last"))
    fit(model, [callback, Look()])
    graph = decode_graph(seen[0])
    nodes = {node.name: node for node in graph.nodes}
    assert nodes["first"].parameters == 16 * 8 + 8
    assert nodes["first"].outputs[0].shape == (32, 8)
    assert nodes["first"].order < nodes["drop"].order < nodes["last"].order  # type: ignore[operator]
    edges = {(edge.source, edge.target) for edge in graph.edges}
    assert {("first", "drop"), ("drop", "last")} <= edges


def test_the_loss_of_each_batch_is_its_own(tmp_path: Path) -> None:
    """Keras shows the mean since the epoch began; recorded is what the batch gave."""
    model = dense(L.Input((16,)), L.Dense(3), optimizer=keras.optimizers.SGD(0.0))
    expected = [float(LOSS(Y[at : at + 32], model(X[at : at + 32]))) for at in range(0, 256, 32)]
    run = Run(tmp_path, model, lambda model, calls: fit(model, calls, epochs=1, shuffle=False))
    assert np.allclose(list(run.scalar("loss").values()), expected, rtol=1e-5)
    assert set(run.scalar("lr/0").values()) == {0.0}


def test_without_keras_the_extra_is_named() -> None:
    """`import tb_netdebug` works, and the callback says what to install."""
    code = (
        "import sys; sys.modules['keras'] = None\n"
        "import tb_netdebug as nd\n"
        "try: nd.KerasCallback\n"
        "except ImportError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "keras" in found.stdout


def test_the_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """Its loss is given logits for probabilities, and it says so."""
    monkeypatch.setattr(sys, "argv", ["keras_run.py", "--logdir", str(tmp_path)])
    runpy.run_path(str(ROOT / "demo/keras_run.py"), run_name="__main__")
    assert "loss-input-logits" in capsys.readouterr().err
    assert 5 * 45 == len(Recorded.of(tmp_path / "keras").scalars["loss"])


def test_memory_is_what_tensorflows_allocator_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each accelerator; nothing of one whose allocator does not tell. The CPU's never does."""
    assert {} == device_memory()
    told = {"GPU:0": {"current": 1 << 20, "peak": 1 << 21}, "GPU:1": {"current": 0, "peak": 0}}
    devices = [SimpleNamespace(name=f"/device:{name}") for name in told]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: devices if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_memory_info", lambda name: told[name])
    expected = {"memory/cuda0/allocated": 1048576.0, "memory/cuda0/peak_allocated": 2097152.0}
    assert expected == device_memory()
