"""The fourth part of the matrix: Keras on each backend, in graphs and eagerly."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.matrix.processes import Job, Pool
from tests.matrix.programs import AGAIN, ALONE, RUN
from tests.matrix.report import Report
from tests.matrix.slice import KERAS_WAYS

SCRIPT = Path(__file__).with_name("keras_training.py")
BACKENDS = ("tensorflow", "jax", "torch")
# In which ways a mode watches: the name of the function and what `check_numerics` is.
WAYS = {
    "watch": ("callback-sampled", "watch-sampled"),
    "layers": ("callback-layers", "watch-layers"),
    "ops": ("callback-ops", "watch-ops"),
    RUN: ("run-sampled",),
    AGAIN: (AGAIN,),
}
# Two hundred cells are one process, whose main thread sleeps while other threads of it compute: so only this
# tells a hang, and is far more than it takes, also on a busy machine.
DEADLINE_SECS = 5400.0
Found = dict[str, dict[str, str]]


class Backends:
    """A cell is a kind of model, the place of its NaN, and a graph or not; all of a way are one process."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, report: Report) -> None:
        self._arguments = arguments
        self._folder = folder
        self._report = report
        self._codes: dict[tuple[str, str], int | str] = {}

    def run(self) -> None:
        pool = Pool(self._arguments.jobs, asleep_secs=DEADLINE_SECS, resting_secs=DEADLINE_SECS)
        pool.run(self._jobs())

    def _ways(self, backend: str) -> list[str]:
        if self._arguments.slice:
            return [KERAS_WAYS[backend]]
        return [way for mode, ways in WAYS.items() if mode in self._arguments.modes for way in ways]

    def _jobs(self) -> Iterator[Job]:
        for backend in BACKENDS:
            for way in (ALONE, *self._ways(backend)):
                yield self._job(backend, way)

    def _job(self, backend: str, way: str) -> Job:
        folder = self._folder / backend / way

        def done(code: int | str) -> None:
            self._codes[backend, way] = code
            self._judge_all(backend)

        return Job(folder, self._program(backend, way, folder), done, deadline_secs=DEADLINE_SECS)

    def _program(self, backend: str, way: str, folder: Path) -> Callable[[], int]:
        places = ",".join(self._arguments.places)
        words = [str(SCRIPT), way, str(folder), self._arguments.only, places]
        words += ["--slice"] if self._arguments.slice else []
        if way.startswith(RUN):
            words = ["-m", "tb_netdebug", "run", "--logdir", str(folder / "logs"), *words]
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}

        def run() -> int:
            os.execve(sys.executable, [sys.executable, *words], environment)

        return run

    def _judge_all(self, backend: str) -> None:
        """Judge what has ended, once the one without NetDebug has."""
        if (backend, ALONE) not in self._codes:
            return
        for way in self._ways(backend):
            if (backend, way) in self._codes and not (self._folder / backend / way / "judged").exists():
                (self._folder / backend / way / "judged").touch()
                self._judge(backend, way)

    def _judge(self, backend: str, way: str) -> None:
        folder = self._folder / backend
        names = cells_in(folder / ALONE) or ["all: its process failed"]
        alone, watched = found_in(folder / ALONE), found_in(folder / way)
        self._report.expected += len(names)
        for name in names:
            reasons = differences(alone.get(name, {}), watched.get(name, {}), way)
            if name not in watched:
                reasons.append(str(self._codes[backend, way]))
            if told := misses_its_point(name, alone.get(name, {})):
                reasons.append(told)
            self._report.add(backend, way, name, reasons)
        if way.startswith(RUN) and names and not any((folder / way / "logs").glob("*/events.*")):
            self._report.add(backend, way, "its log", ["nothing recorded"])


def cells_in(folder: Path) -> list[str]:
    path = folder / "cells.json"
    found: list[str] = json.loads(path.read_text()) if path.exists() else []
    return found


def found_in(folder: Path) -> Found:
    """Return what became of each cell, as far as the process came."""
    path = folder / "found.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(json.loads(line) for line in lines)


def differences(alone: dict[str, str], watched: dict[str, str], way: str) -> list[str]:
    """Return the names of the parts that differ."""
    names = [name for name in {**alone, **watched} if name != "recorded"]
    found = [name for name in names if alone.get(name) != watched.get(name)]
    is_watched = way != AGAIN and not way.startswith(RUN)
    return [*found, *(["nothing recorded"] if is_watched and watched.get("recorded") == "False" else [])]


def misses_its_point(name: str, alone: dict[str, str]) -> str:
    """Return why equal cells would prove nothing: it failed, or the NaN never came; "" when they do."""
    if not alone or "error" in alone:
        return f"{ALONE} it failed: {alone.get('error')}"
    has_nan = alone["has had NaN"] == "True"
    return (
        ""
        if has_nan is not (name.split("/")[-2] == "none")
        else f"{ALONE} {'it had a NaN' if has_nan else 'no NaN came'}"
    )
