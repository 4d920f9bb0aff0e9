"""Processes that a script under `netdebug run` starts: each that trains is a run; the first one speaks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_run_command import ROOT, SCRIPTS, python, watched
from tests.support.loops import Recorded

SCRIPT = str(SCRIPTS / "processes.py")
NAMED = ("--run", "mine", "--on-finding", "ignore")


def runs_of(folder: Path) -> dict[str, list[int]]:
    return {path.name: Recorded(path).steps for path in (folder / "runs").iterdir()}


@pytest.mark.parametrize("way", ["torch", "spawn", "forkserver", "fork"])
def test_each_process_that_trains_is_a_run(tmp_path: Path, way: str) -> None:
    """Started by whatever method; all of them are told of once, at the end."""
    expected = python(SCRIPT, way, folder=tmp_path)
    actual = watched(SCRIPT, way, folder=tmp_path, options=NAMED)
    assert expected == type(expected)(actual.code, actual.output, actual.errors)
    assert {f"mine-process{number}": list(range(4 + number)) for number in (1, 2, 3)} == runs_of(tmp_path)
    assert actual.closing.startswith("NetDebug: 3 runs recorded: 1 sick, 2 healthy.\n")
    assert "mine-process1: 5 steps, healthy" in actual.closing
    assert "mine-process2: 6 steps, sick (nonfinite-loss" in actual.closing
    assert 1 == actual.closing.count("NetDebug: ")
    assert 1 == actual.closing.count("ERROR nonfinite-loss")


def test_a_process_that_fails_fails_as_it_does_alone(tmp_path: Path) -> None:
    """Its error is its own, its steps are there, and the others' too."""
    expected = python(SCRIPT, "spawn", "fails", folder=tmp_path)
    actual = watched(SCRIPT, "spawn", "fails", folder=tmp_path, options=NAMED)
    assert (expected.code, expected.output) == (actual.code, actual.output)
    said = actual.errors + actual.closing  # a sentence about its capsule comes before the error itself
    assert "ValueError: broken" in said
    assert "tb_netdebug" not in said
    assert list(range(7)) == runs_of(tmp_path)["mine-process3"]


def test_findings_are_told_with_the_name_of_the_run(tmp_path: Path) -> None:
    """While several processes write to the same terminal."""
    actual = watched(SCRIPT, "spawn", folder=tmp_path, options=("--run", "mine"))
    told = actual.errors + actual.closing
    assert re.search(r"^NetDebug: mine-process2: ERROR nonfinite-loss, step", told, re.MULTILINE)


def test_processes_that_train_together_write_one_run(tmp_path: Path) -> None:
    """DDP by torch.multiprocessing.spawn: the ranks share the run, as under torchrun."""
    actual = watched(SCRIPT, "ranks", folder=tmp_path, options=NAMED)
    assert 0 == actual.code, actual.errors
    assert ["mine"] == [path.name for path in (tmp_path / "runs").iterdir()]
    assert [list(range(5))] * 2 == [Recorded(tmp_path / "runs/mine", rank).steps for rank in (0, 1)]
    assert actual.closing.startswith("NetDebug: 5 steps recorded, verdict healthy.")


def test_a_forked_process_is_a_run(tmp_path: Path) -> None:
    """By os.fork, before anything was recorded."""
    actual = watched(SCRIPT, "forked", folder=tmp_path, options=NAMED)
    assert 0 == actual.code
    ((name, steps),) = runs_of(tmp_path).items()
    assert re.fullmatch(r"mine-pid\d+", name)
    assert list(range(5)) == steps
    assert "NetDebug: 5 steps recorded, verdict healthy." in actual.closing


def test_a_process_forked_from_a_recording_says_that_it_is_not_recorded(tmp_path: Path) -> None:
    """Threads and files of the recording stay with the parent."""
    actual = watched(SCRIPT, "forked-late", folder=tmp_path, options=NAMED)
    assert 0 == actual.code
    assert {"mine": list(range(4))} == runs_of(tmp_path)
    told = actual.errors + actual.closing
    assert 1 == len(
        re.findall(r"NetDebug: process \d+ trains but is not recorded, because it was forked", told)
    )
    assert 'Start it with the method "spawn", or call nd.watch in it.' in told
    assert "NetDebug: 4 steps recorded, verdict healthy." in told


def test_a_daemon_is_recorded_after_its_parent_has_ended(tmp_path: Path) -> None:
    """It has the name of the run, and speaks for itself."""
    package = "" if sys.flags.isolated else str(ROOT)
    with (tmp_path / "errors").open("w+") as errors:
        subprocess.run(
            [sys.executable, "-m", "tb_netdebug", "run", *NAMED, SCRIPT, "daemon"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": package, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,  # read to its end: the daemon has it, too
            stderr=errors,
            check=True,
            timeout=120,
        )
        errors.seek(0)
        told = errors.read()
    assert {"mine": list(range(5))} == runs_of(tmp_path)
    assert "this process still runs after the one that started it ended, and is recorded in" in told
    assert 1 == told.count("5 steps recorded, verdict healthy.")


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_workers_of_loaders_are_left_alone(tmp_path: Path, how: str) -> None:
    """Even when they train: no run, no word, nothing carried over."""
    script = str(SCRIPTS / "workers.py")
    expected = python(script, how, folder=tmp_path)
    actual = watched(script, how, folder=tmp_path, options=NAMED)
    assert expected == type(expected)(actual.code, actual.output, actual.errors)
    assert {"mine": list(range(6))} == runs_of(tmp_path)
    assert actual.closing.startswith("NetDebug: 6 steps recorded")


LETS_GO = """
import gc, weakref
import torch
from torch import nn
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    loss = model(torch.randn(8, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
gone = __import__("threading").Event()
weakref.finalize(model, gone.set)
del model, optimizer, loss
gc.collect()
print("let go:", gone.wait(60))
"""


def test_the_last_model_is_let_go_with_its_optimizer(tmp_path: Path) -> None:
    """Without another one being made."""
    (tmp_path / "train.py").write_text(LETS_GO)
    actual = watched("train.py", folder=tmp_path, options=NAMED)
    assert (0, "let go: True\n") == (actual.code, actual.output)
    assert "5 steps recorded" in actual.closing
    assert list(range(5)) == runs_of(tmp_path)["mine"]
