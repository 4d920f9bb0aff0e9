"""A training is the same with and without NetDebug, whatever state it has: a slice of `make matrix`."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.matrix.cells import Cell, cells_of
from tests.matrix.compare import Left, differences
from tests.matrix.copied_models import MODELS
from tests.matrix.copy_operations import OPERATIONS, ours
from tests.matrix.kinds import FAMILIES, KINDS
from tests.matrix.outcome import digest
from tests.matrix.processes import HUNG
from tests.matrix.slice import slice_of_cells
from tests.matrix.trainings import misses_its_point

# A hundred trainings are one test here, on a machine that may be busy.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]


def matrix(*words: str) -> list[str]:
    """The last words of a matrix in which every cell is equal; else all its words."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "tests/matrix"), *words], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout.splitlines()[-1].partition(", in")[0].split(", ")


def test_trainings_are_the_same_bit_for_bit() -> None:
    """State outside of buffers, a NaN in any place, any mode: nothing differs, and nothing waits for ever."""
    count = sum(len(cells) - 1 for cells in slice_of_cells())
    assert [f"{count} cells", f"{count} equal", "0 hangs"] == matrix("--slice", "--parts", "trainings")


def test_copies_and_files_hold_nothing_of_ours() -> None:
    """What is copied, saved, scripted, exported or compiled is what it is without NetDebug."""
    cells, equal, hangs = matrix("--slice", "--parts", "copies")
    assert (cells.split()[0], "0 hangs") == (equal.split()[0], hangs)


def test_two_ranks_are_the_same_bit_for_bit() -> None:
    """A NaN on one of two ranks changes nothing that is trained, and both come to their end."""
    assert ["1 cells", "1 equal", "0 hangs"] == matrix("--slice", "--parts", "ranks")


def test_fresh_interpreters_are_compared_too() -> None:
    """Without a fork, `netdebug run` imports everything itself."""
    cell = ("--only", "own-torch-generator", "--places", "loss", "--handlings", "trained", "--modes", "run")
    assert ["1 cells", "1 equal", "0 hangs"] == matrix("--parts", "trainings", "--fresh", *cell)


# ---- the matrix itself ---------------------------------------------------------------------


def test_the_matrix_is_as_large_as_it_is_said_to_be() -> None:
    """Every family has its kinds; every kind is trained in every mode with a NaN in every place."""
    families = Counter(FAMILIES.values())
    parts = ("random", "counters", "blocking", "files", "weights", "autograd", "compiled", "modules", "loops")
    assert {*parts, "containers", "modes"} == set(families)
    assert 157 == len(KINDS)
    groups = list(cells_of(list(KINDS)))
    watched = {(cell.kind, cell.place, cell.mode) for cells in groups for cell in cells[1:]}
    assert 157 * 5 * 4 == len(watched)
    assert {cell.kind for cells in slice_of_cells() for cell in cells} <= set(KINDS)
    assert (27, 19) == (len(MODELS), len(OPERATIONS))


def quiet_nan(payload: int) -> torch.Tensor:
    return torch.frombuffer(bytearray(struct.pack("<I", 0x7FC00000 | payload)), dtype=torch.float32)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.zeros(2), -torch.zeros(2)),
        (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2, 1), torch.ones(1, 2)),
        (torch.ones(1), torch.full((1,), 1.0 + 2**-23)),
        (quiet_nan(0), quiet_nan(1)),
        (np.ones(2), np.ones(2, np.float32)),
        (0.1, 0.1 + 2**-56),
        ({"a": 1}, {"b": 1}),
        ([1, [2]], [1, 2]),
        (b"1", "1"),
        (1, True),
        (None, 0),
    ],
)
def test_one_bit_makes_a_difference(one: object, other: object) -> None:
    """What differs in a bit, a type or a shape has another digest; what is the same has the same."""
    assert digest(one) == digest(one)
    assert digest(one) != digest(other)


ALONE = Left(0, {"losses": ["a"], "error": "", "bad": [5], "exit code": 0}, False, "")


@pytest.mark.parametrize(
    ("watched", "reasons"),
    [
        (replace(ALONE, has_recorded=True), []),
        (ALONE, ["nothing recorded"]),
        (replace(ALONE, parts={**ALONE.parts, "losses": ["b"]}, has_recorded=True), ["losses"]),
        (replace(ALONE, parts={**ALONE.parts, "outcome": "missing"}, has_recorded=True), ["outcome"]),
        (replace(ALONE, code=HUNG, has_recorded=True), [HUNG]),
    ],
)
def test_what_differs_is_named(watched: Left, reasons: list[str]) -> None:
    """A part that differs, that is missing or too many, a hang, and a watch that saw nothing."""
    assert reasons == differences(ALONE, watched)


def test_a_cell_without_its_nan_is_not_equal() -> None:
    """Two trainings that are equal because the NaN never came, or because both failed, prove nothing."""
    cell = Cell("dropout", "loss", "trained", "watch")
    without = replace(ALONE, parts={**ALONE.parts, "bad": []})
    assert "" == misses_its_point(cell, ALONE)
    assert "alone its first NaN was in None" == misses_its_point(cell, without)
    assert "alone it had a NaN in [5]" == misses_its_point(replace(cell, place="none"), ALONE)
    assert "alone it failed: 1" == misses_its_point(cell, Left(1, {}, False, ""))


WAITS = """
import os, pathlib, sys
sys.path.append(sys.argv[1])
from tests.matrix.processes import Job, Pool

reads, writes = os.pipe()
codes = {}
actions = {"waits": lambda: len(os.read(reads, 1)), "works": lambda: 3, "raises": lambda: 1 // 0}
Pool(2, asleep_secs=1.0).run(
    Job(pathlib.Path(name).resolve(), action, lambda code, name=name: codes.update({name: code}))
    for name, action in actions.items()
)
print(codes)
"""


def test_a_program_that_waits_for_ever_is_ended(tmp_path: Path) -> None:
    """It counts as hanging; what works or fails ends by itself, with its own exit code."""
    words = [sys.executable, "-c", WAITS, str(ROOT)]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ)
    assert "{'works': 3, 'raises': 1, 'waits': 'hung'}" == ran.stdout.strip(), ran.stderr
    assert "ZeroDivisionError" in (tmp_path / "raises/stderr.txt").read_text()


def test_what_is_ours_is_found_in_a_copy() -> None:
    """In hooks, in attributes, in closures; a model of torch alone has nothing."""
    from tb_netdebug.recording.settings import Settings

    model, hidden = torch.nn.Linear(2, 2), Settings()
    assert [] == ours(model)
    model.register_forward_hook(lambda *_, kept=[hidden]: None)
    assert ["tb_netdebug.recording.settings.Settings"] == ours(model)
