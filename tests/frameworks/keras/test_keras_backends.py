"""Keras on torch and on JAX: the same callback, the same checks, and no need of TensorFlow; each backend in a
process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
START = f"""
import runpy, sys
sys.path[:1] = []
sys.path.append({str(ROOT)!r})
sys.modules["tensorflow"] = None  # as where it is not installed: the extras do not bring it
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
LAYERS = ["first", "norm", "drop", "last"]
WEIGHTS = ["first.kernel", "first.bias", "norm.gamma", "norm.beta", "last.kernel", "last.bias"]


@pytest.fixture(scope="module", params=["torch", "jax"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def told(backend: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What became of the trainings in `keras_backend_runs.py`."""
    script = ROOT / "tests/support/keras_backend_runs.py"
    ran = subprocess.run(
        [sys.executable, "-c", START, str(script), str(tmp_path_factory.mktemp(backend))],
        env={**os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert 0 == ran.returncode, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("name", ["plain", "several", "mixed"])
def test_numbers_are_the_same_to_the_last_bit(name: str, told: dict[str, Any]) -> None:
    """Losses and weights, also with dropout, several inputs and outputs, and a scaled loss; none is sick."""
    assert told[name]["same"]
    assert [] == told[name]["slugs"]


def test_layers_and_weights_have_the_names_that_keras_gives_them(told: dict[str, Any]) -> None:
    """The same as on TensorFlow; moving averages and counters are no weights."""
    kinds = told["plain"]["kinds"]
    assert kinds["ACTIVATION"] == LAYERS
    assert kinds["GRADIENT"] == kinds["WEIGHT"] == kinds["UPDATE"] == WEIGHTS
    assert {"input/0", "label/0"} == set(kinds["TENSOR"])


def test_each_batch_is_a_step(told: dict[str, Any]) -> None:
    """With its loss, size, metrics and times; evaluations are told where they happened."""
    steps = told["plain"]["steps"]
    every = {steps[name] for name in ("loss", "batch_size", "scalar/accuracy", "time/step", "time/data")}
    assert {40} == every
    assert 4 == steps["scalar/val_loss"] == steps["scalar/val_accuracy"]
    assert steps["gradient_norm"] >= steps["lr/0"] > 0 or steps["lr/0"] == 40
    assert told["mixed"]["steps"]["probe/loss_scale"] >= 10


def test_the_loss_of_each_batch_is_its_own(told: dict[str, Any]) -> None:
    """Keras shows the mean since the epoch began; recorded is what the batch gave."""
    assert np.allclose(told["losses"]["expected"], told["losses"]["found"], rtol=1e-5)


def test_sick_networks_are_found(told: dict[str, Any]) -> None:
    """Each by its own rule, at warning or error."""
    assert {} == {slug: found for slug, found in told["sick"].items() if slug not in found}


def test_the_layer_that_made_the_first_nan_is_named(told: dict[str, Any]) -> None:
    """At its step; on torch in ordinary steps, too."""
    assert ["root", 6] == told["origin"]


def test_modes_are_as_keras_tells_them(told: dict[str, Any], backend: str) -> None:
    """On torch a layer knows that it is trained when its model knows. On JAX Keras calls the model in another
    way: a dropout that is not told `training` drops nothing, and that is found."""
    assert (["eval-mode-training"] if backend == "jax" else []) == told["careless"]


def test_a_finding_that_ends_the_training_leaves_a_model_that_works(told: dict[str, Any]) -> None:
    """Also on JAX, where the state of the step before is used up."""
    assert told["raised"]["rule"] in told["sick"]["learning-rate-high"]
    assert [4, 3] == told["raised"]["shape"]


def test_fit_without_a_callback_is_told(told: dict[str, Any]) -> None:
    """Once after twenty batches, with the callback to pass; at the end; and in the run."""
    said, reason = told["forgotten"]
    assert 1 == said.count("Keras trained 20 batches and monitor.step was not called")
    assert "callbacks=[nd.KerasCallback()]" in said
    assert 1 == said.count("nothing was recorded: the optimizer stepped 40 times")
    assert "the optimizer stepped 40 times" in reason
    assert "KerasCallback" in reason


def test_the_debugger_stops_where_the_backend_lets_it(told: dict[str, Any], backend: str) -> None:
    """On torch at layers; JAX runs the step as a whole, and all is within reach at its end. A learning rate
    that is set there is that of the next batch."""
    found = told["stepping"]
    layers = [f"{edge} forward of {name}" for name in ("first", "last") for edge in ("before", "after")]
    assert (layers if backend == "torch" else []) == [each for each in found["places"] if each in layers]
    assert "before end of all" == found["places"][-1]
    assert ("layer" in found["can"]) is (backend == "torch")
    assert found["cannot"]
    assert [0.01, 0.02] == found["rates"]
    assert [True, True] == found["is_right"]
    everything = {"batch", "gradient", "label", "loss", "output", "state", "update", "weight"}
    assert all(everything <= set(kinds) for kinds in found["kinds"])
