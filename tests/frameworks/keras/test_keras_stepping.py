"""The debugger's way into trainings of Keras on TensorFlow: where they stop, and what can be seen there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tb_netdebug as nd
from tb_netdebug.debugger.place import AFTER, BEFORE, END, FORWARD, OPTIMIZER, Place
from tb_netdebug.debugger.workbench import NOTHING, Needs, WorkbenchError
from tb_netdebug.frameworks.keras import calls
from tests.support.keras_runs import X, Y, dense
from tests.support.keras_stepping import ALL, Script, stepped

L = keras.layers
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
WEIGHTS = ["first.kernel", "first.bias", "last.kernel", "last.bias"]
EAGER_BATCH = [
    "before forward of Sequential",  # of the model
    "before forward of Sequential",  # of the layer that it is
    "before forward of first", "after forward of first", "before forward of last", "after forward of last",
    "after forward of Sequential", "after forward of Sequential",
    "before backward of all", "before optimizer of Adam", "after optimizer of Adam", "before end of all",
]  # fmt: skip


def network(**options: Any) -> Any:
    keras.utils.set_random_seed(1)
    layers = L.Input((16,)), L.Dense(8, activation="relu", name="first"), L.Dense(3, name="last")
    return dense(*layers, optimizer=keras.optimizers.Adam(0.01), **options)


def fit(model: Any, callbacks: list[Any], **options: Any) -> Any:
    """Three batches, in order."""
    return model.fit(X[:96], Y[:96], shuffle=False, verbose=0, callbacks=callbacks, **options)


def values(bench: Any, name: str) -> Any:
    readable = bench.tensor(name)
    return readable.part(tuple(slice(None) for _ in readable.entry.shape))


def test_a_graph_is_stepped_by_batch(tmp_path: Path) -> None:
    """It stops at the end of each batch, and says why not within it."""
    script = Script()
    fit(network(), stepped(tmp_path, script))
    assert ["before end of all"] * 3 == script.told
    assert ("batch",) == script.bench.can
    assert "run_eagerly=True" in script.bench.cannot[0]


def test_what_runs_eagerly_is_stepped_by_layer(tmp_path: Path) -> None:
    """In the order in which things happen; evaluations are no part of it."""
    script = Script()
    fit(network(run_eagerly=True), stepped(tmp_path, script), validation_data=(X[:32], Y[:32]))
    assert EAGER_BATCH * 3 == script.told
    assert ("batch", "layer", "optimizer") == script.bench.can


@pytest.mark.parametrize("eager", [False, True])
def test_all_tensors_of_a_batch_are_within_reach_at_its_end(eager: bool, tmp_path: Path) -> None:
    """In a graph, too: batch, outputs, labels, loss, gradients, weights, updates, the optimizer's state."""
    seen: list[dict[str, Any]] = []

    def look(bench: Any, place: Place) -> None:
        if place.phase == END:
            seen.append({each.name: values(bench, each.name) for each in bench.entries()})

    model = network(run_eagerly=eager)
    before = model.get_weights()
    fit(model, stepped(tmp_path, Script(look)))
    first, last = seen[0], seen[-1]
    assert {f"{kind}:{name}" for kind in ("gradient", "weight", "update") for name in WEIGHTS} <= first.keys()
    assert {f"state:{name}/{slot}" for name in WEIGHTS for slot in ("momentum", "velocity")} <= first.keys()
    assert np.array_equal(X[:32], first["batch:0"])
    assert np.array_equal(Y[:32], first["label:0"].ravel())
    assert np.array_equal(X[64:96], last["batch:0"])
    assert float(LOSS(Y[:32], first["output:last"])) == pytest.approx(float(first["loss:0"]))
    hidden = np.maximum(X[:32] @ before[0] + before[1], 0)
    assert np.allclose(hidden, first["output:first"], atol=1e-6)
    for name, weight, old in zip(WEIGHTS, model.get_weights(), before, strict=True):
        assert np.array_equal(weight, last[f"weight:{name}"])
        assert np.array_equal(first[f"weight:{name}"] - old, first[f"update:{name}"])
        assert np.allclose(first[f"gradient:{name}"] * 0.1, first[f"state:{name}/momentum"])


def test_what_has_not_happened_yet_is_not_there(tmp_path: Path) -> None:
    """Before a layer its input, behind it its output; before the optimizer gradients, behind it updates."""
    found: dict[str, bool] = {}
    refusals: list[str] = []

    def has(bench: Any, name: str) -> bool:
        try:
            bench.tensor(name)
        except WorkbenchError as error:
            refusals.append(str(error))
            return False
        return True

    def look(bench: Any, place: Place) -> None:
        for name in ("input:last", "output:last", "gradient:last.bias"):
            found[f"{place.phase} {place.edge} {place.module} {name}"] = has(bench, name)
        if place.phase == OPTIMIZER:
            found[place.edge] = bool(bench.tensor("update:last.bias").summary().sum_squares)

    model = network(run_eagerly=True)
    model.fit(X[:32], Y[:32], verbose=0, callbacks=stepped(tmp_path, Script(look)))
    assert found[f"{FORWARD} {BEFORE} last input:last"]
    assert not found[f"{FORWARD} {BEFORE} last output:last"]
    assert found[f"{FORWARD} {AFTER} last output:last"]
    assert not found[f"{FORWARD} {AFTER} last gradient:last.bias"]
    assert found[f"{OPTIMIZER} {BEFORE} None gradient:last.bias"]
    assert (False, True) == (found[BEFORE], found[AFTER])
    assert all("step to the end of the next batch" in each for each in refusals)


@pytest.mark.parametrize("eager", [False, True])
def test_numbers_are_the_same_to_the_last_bit(eager: bool, tmp_path: Path) -> None:
    """A training that is looked at in every place computes what it computes without us."""

    def look(bench: Any, place: Place) -> None:
        names = [each.name for each in bench.entries()]
        assert len(names) == len(bench.summaries(names))

    def trained(callbacks: list[Any]) -> tuple[Any, Any]:
        model = network(run_eagerly=eager)
        return fit(model, callbacks, epochs=2).history["loss"], model.get_weights()

    losses, weights = trained([])
    watched = trained(stepped(tmp_path, Script(look)))
    assert losses == watched[0]
    assert all(map(np.array_equal, weights, watched[1]))


def test_a_graph_is_not_traced_again(tmp_path: Path) -> None:
    """Attending and leaving changes which of its two versions runs."""
    counts = []

    def look(bench: Any, place: Place) -> None:
        counts.append(sum(each.tracing_count() for each in bench._source._steps))
        bench.need(ALL if len(counts) % 2 else NOTHING)

    fit(network(), stepped(tmp_path, Script(look), every=1000), epochs=4)
    assert {2} == set(counts[2:])


def test_the_batch_before_can_be_compared(tmp_path: Path) -> None:
    """Of the tensors that were asked for, from the second batch on."""
    names = ["weight:last.bias", "output:first"]
    seen: list[Any] = []

    def look(bench: Any, place: Place) -> None:
        readable = bench.tensor("weight:last.bias")
        before = readable.previous()
        seen.append(
            (readable.part((slice(None),)), before and before.part((slice(None),)), bench.changes(names))
        )

    fit(network(), stepped(tmp_path, Script(look), Needs(keep=True, previous=frozenset(names))))
    assert seen[0][1] is None
    assert {} == seen[0][2]
    assert np.array_equal(seen[0][0], seen[1][1])
    moved = np.linalg.norm(seen[1][0] - seen[0][0]) / np.linalg.norm(seen[0][0])
    assert moved == pytest.approx(seen[1][2]["weight:last.bias"], rel=1e-5)
    assert set(names) == set(seen[1][2])


def test_learning_rates_can_be_changed(tmp_path: Path) -> None:
    """From the next batch on, in a graph, too; a schedule is left alone with a sentence."""
    rates = []

    def change(bench: Any, place: Place) -> None:
        (found,) = bench.learning_rates()
        rates.append(found["value"])
        bench.set_learning_rate(0, None, 0.5)

    model = network()
    fit(model, stepped(tmp_path, Script(change)))
    assert [0.01, 0.5, 0.5] == pytest.approx(rates)
    assert 0.5 == pytest.approx(float(model.optimizer.learning_rate))
    scheduled = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9))
    script = Script()
    fit(dense(L.Dense(3), optimizer=scheduled), stepped(tmp_path, script, run="scheduled"))
    with pytest.raises(WorkbenchError, match="ExponentialDecay"):
        script.bench.set_learning_rate(0, None, 0.5)
    with pytest.raises(WorkbenchError, match="there is no optimizer 1"):
        script.bench.set_learning_rate(1, None, 0.5)


def test_gradients_are_seen_without_the_scale_of_mixed_precision(tmp_path: Path) -> None:
    """In a graph as eagerly."""

    def norm(eager: bool) -> float:
        found: list[float] = []

        def look(bench: Any, place: Place) -> None:
            if place.phase == END:
                found.append(bench.tensor("gradient:last.bias").summary().norm)

        keras.utils.set_random_seed(1)
        scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=1024.0)
        layers = L.Input((16,)), L.Dense(8, name="first"), L.Dense(3, name="last")
        model = dense(*layers, optimizer=scaled, run_eagerly=eager)
        model.fit(X[:32], Y[:32], verbose=0, callbacks=stepped(tmp_path / str(eager), Script(look)))
        return found[0]

    assert norm(False) == pytest.approx(norm(True), rel=1e-5)
    assert 0.0 < norm(False) < 10.0


def test_a_loop_of_ones_own_is_stepped_by_layer(tmp_path: Path) -> None:
    """With a GradientTape, where it runs eagerly; a layer that loops is one stop."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([L.Input((16, 1)), L.LSTM(4, name="reader"), L.Dense(3, name="last")])
    optimizer, script = keras.optimizers.SGD(0.1), Script()
    with nd.watch(model, optimizer, logdir=tmp_path, strict=True, on_finding="ignore") as monitor:
        script.attend(monitor, ALL)
        for start in (0, 32):
            with tf.GradientTape() as tape:
                loss = LOSS(Y[start : start + 32], model(X[start : start + 32, :, None], training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            model(X[:8, :, None])  # an evaluation
            monitor.step(loss=loss)
        modules = {each["name"]: each for each in script.bench.modules()}
    half = len(script.told) // 2
    assert script.told[:half] == script.told[half:]
    assert ["reader", "reader", "last", "last"] == [
        each.rpartition(" ")[2] for each in script.told[:half] if each.endswith(("reader", "last"))
    ]
    assert "before backward of all" in script.told
    assert modules["reader"]["order"] < modules["last"]["order"]
    assert 4 * 3 + 3 == modules["last"]["parameters"]


def test_nothing_is_needed_and_nothing_is_there(tmp_path: Path) -> None:
    """Neither stops nor tensors of a batch, and nobody listens; weights are there as always."""
    script = Script()
    listeners = []

    def look(bench: Any, place: Place) -> None:
        listeners.append(len(calls._listeners))
        assert {"weight", "state"} >= {each.kind for each in bench.entries()}

    script._do = look
    fit(network(run_eagerly=True), stepped(tmp_path, script, NOTHING))
    assert ["before end of all"] * 3 == script.told
    original = tf.GradientTape.gradient
    assert not hasattr(original, "__wrapped__")
    assert () == calls._listeners
