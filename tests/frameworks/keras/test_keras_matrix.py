"""A run of Keras is the same with and without NetDebug, whatever state it has: a slice of `make matrix`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.matrix.backends import differences, misses_its_point
from tests.matrix.keras_training import cells_of, sliced

ROOT = Path(__file__).resolve().parents[3]
PARTS = {"losses": "1", "has had NaN": "True", "recorded": "True"}


@pytest.mark.timeout(900)
def test_runs_are_the_same_bit_for_bit() -> None:
    """Some kinds on every backend: losses, weights, generators, counters and files are equal; none hangs."""
    words = [str(ROOT / "tests/matrix"), "--slice", "--parts", "keras"]
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert 0 == ran.returncode, f"{ran.stdout}\n{ran.stderr}"
    assert "23 cells, 23 equal, 0 hangs" == ran.stdout.splitlines()[-1].partition(", in")[0]


def test_every_kind_has_its_cells() -> None:
    """Each place of the NaN in a graph; eagerly on TensorFlow only two of them."""
    assert 7 == len(list(cells_of("tensorflow", ["plain"])))
    assert 5 == len(list(cells_of("torch", ["plain"]))) == len(list(cells_of("jax", ["plain"])))
    assert ["a/none/graph", "d/input/graph"] == [each.name for each in sliced("jax", "abcdef")]


@pytest.mark.parametrize(
    ("watched", "way", "reasons"),
    [
        (PARTS, "watch-ops", []),
        ({**PARTS, "losses": "2"}, "watch-ops", ["losses"]),
        ({"error": "it raised"}, "run-sampled", ["losses", "has had NaN", "error"]),
        ({**PARTS, "recorded": "False"}, "callback-ops", ["nothing recorded"]),
        ({**PARTS, "recorded": "False"}, "run-sampled", []),
    ],
)
def test_what_differs_is_named(watched: dict[str, str], way: str, reasons: list[str]) -> None:
    """A part, an error, and a watch that saw nothing; `netdebug run` records into another folder."""
    assert reasons == differences(PARTS, watched, way)


def test_a_cell_without_its_nan_is_not_equal() -> None:
    """Two runs that are equal because the NaN never came, or because both failed, prove nothing."""
    assert "" == misses_its_point("plain/loss/graph", PARTS)
    assert "alone it had a NaN" == misses_its_point("plain/none/graph", PARTS)
    assert "alone no NaN came" == misses_its_point("plain/loss/graph", {**PARTS, "has had NaN": "False"})
    assert "alone it failed: it raised" == misses_its_point("plain/loss/graph", {"error": "it raised"})
