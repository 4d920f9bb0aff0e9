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

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
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
        [sys.executable, str(script), str(tmp_path_factory.mktemp(backend))],
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
    assert {"rule": "learning-rate-high", "shape": [4, 3]} == told["raised"]
