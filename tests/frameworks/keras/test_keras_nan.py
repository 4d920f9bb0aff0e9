"""What is recorded of the origin of a NaN with Keras is what was seen, on every backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "" if sys.flags.isolated else str(ROOT)  # in an isolated run the installed wheel is tested
BAD_BATCH = 20
# The place, and what it is, whose inputs were finite or not.
BY_LAYERS = {
    "input": ("input", "input/0", False),
    "label": ("input", "label/0", False),
    "layer": ("output", "trouble", True),
    "between": ("output", "last", False),
    "loss": ("loss", "loss", True),
    "gradient": ("gradient", "first.bias", True),
}
OF_OPERATIONS = {
    "layer": ("output", "trouble", True),
    "between": ("output", "Model", True),
    "gradient": ("gradient", "trouble", True),
}
FORWARD = ("layer", "between", "loss")


def origins(backend: str, folder: Path) -> dict[str, tuple[int, dict[str, Any]]]:
    """Return what was recorded, by the place of the NaN, from a process of its own."""
    environment = {
        **os.environ, "KERAS_BACKEND": backend, "PYTHONPATH": PACKAGE, "OMP_NUM_THREADS": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tests/support/keras_nan.py"), str(folder)],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert 0 == ran.returncode, ran.stderr
    found: dict[str, tuple[int, dict[str, Any]]] = json.loads(ran.stdout.splitlines()[-1])
    return found


def said(fact: dict[str, Any]) -> tuple[str, str, bool]:
    return fact["what"], fact["where"], fact["inputs_finite"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_layers_are_named_where_operations_are_not_followed(backend: str, tmp_path: Path) -> None:
    """A batch with NaN is told from a layer, code between layers from the layer behind it; no operation
    is named, and none is promised."""
    found = origins(backend, tmp_path)
    assert {place: (BAD_BATCH, *expected) for place, expected in BY_LAYERS.items()} == {
        place: (step, *said(fact)) for place, (step, fact) in found.items()
    }
    for _, fact in found.values():
        assert (None, "", None) == (fact["operation"], fact["site"], fact["repeats"])
        assert "check_numerics" not in fact["why_not"]


@pytest.mark.timeout(600)
def test_operations_are_named_with_their_lines_on_tensorflow(tmp_path: Path) -> None:
    """In a graph and eagerly; what the backward pass does has no line of the user's, that of `fit` least."""
    found = origins("tensorflow", tmp_path)
    lines = (ROOT / "tests/support/keras_nan.py").read_text().splitlines()
    for name, (step, fact) in found.items():
        place = name.partition(" ")[0]
        assert BAD_BATCH == step
        if name != "gradient eagerly":  # its operations do not say which layer they are of
            assert OF_OPERATIONS.get(place, BY_LAYERS[place]) == said(fact), name
        assert "placeholder" not in fact["why_not"]
        file, _, number = fact["site"].partition(":")
        assert ("keras_nan.py" if place in FORWARD else "") == file, name
        if place in FORWARD:
            assert fact["operation"] in ("sqrt", "log")
            assert fact["operation"] in lines[int(number) - 1]
