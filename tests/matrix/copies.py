"""The second part of the matrix: copies, files and other forms of watched models."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.matrix import programs
from tests.matrix.copied_models import MODELS
from tests.matrix.copying import TIMES
from tests.matrix.processes import HUNG, Job, Pool
from tests.matrix.programs import AGAIN, ALONE
from tests.matrix.report import Report
from tests.matrix.slice import MODELS as SLICE

MODES = ("watch", "run", AGAIN)
SCRIPT = Path(__file__).with_name("copying.py")
LOADING = Path(__file__).with_name("loading.py")


class Copies:
    """A cell is what came of one operation with one model in one mode, during the watch or after it."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, report: Report) -> None:
        self._arguments = arguments
        self._folder = folder
        self._report = report
        only = SLICE if arguments.slice else arguments.only
        self._names = [name for name in MODELS if re.search(only, name)]
        self._modes = [mode for mode in MODES if mode in arguments.modes]
        self._codes: dict[tuple[str, str], int | str] = {}

    def run(self) -> None:
        Pool(self._arguments.jobs).run(self._jobs())
        loaded = self._loaded()
        for name in self._names:
            alone = self._found(name, ALONE)
            for mode in self._modes:
                self._judge(name, mode, alone, self._found(name, mode))
                for time in TIMES:
                    self._judge_loaded(name, mode, time, loaded)

    def _jobs(self) -> Iterator[Job]:
        for name in self._names:
            for mode in (ALONE, *self._modes):
                folder = self._folder / name / mode

                def done(code: int | str, key: tuple[str, str] = (name, mode)) -> None:
                    self._codes[key] = code

                start = programs.fresh if self._arguments.fresh else programs.forked
                yield Job(folder, start(SCRIPT, [name, mode, str(folder)], mode=mode, folder=folder), done)

    def _found(self, name: str, mode: str) -> dict[str, Any]:
        path = self._folder / name / mode / "outcome.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return {"exit code": self._codes[name, mode], **found}

    def _judge(self, name: str, mode: str, alone: dict[str, Any], watched: dict[str, Any]) -> None:
        for what in alone:
            reasons = [] if alone[what] == watched.get(what, "missing") else [what]
            if alone["exit code"]:
                reasons.append(f"{ALONE} it failed")
            if watched["exit code"] == HUNG:
                reasons.append(HUNG)
            self._report.expected += 1
            self._report.add("copies", f"copy/{mode}", name, reasons)

    def _judge_loaded(self, name: str, mode: str, time: str, loaded: dict[str, str]) -> None:
        """Where NetDebug cannot be imported, the file gives what the one gives that never knew of it."""
        mine, other = (loaded.get(f"{name}/{each}/{time}/model.pt", "missing") for each in (mode, ALONE))
        reasons = [] if mine == other else [f"read elsewhere {time}"]
        self._report.expected += 1
        self._report.add("copies", f"copy/{mode}", name, reasons)

    def _loaded(self) -> dict[str, str]:
        """By file, what another interpreter made of it."""

        def action() -> int:
            os.execv(sys.executable, [sys.executable, str(LOADING), str(self._folder)])

        Pool(1).run([Job(self._folder / "loading", action, lambda code: None)])
        answers: dict[str, str] = json.loads((self._folder / "answers.json").read_text())
        return answers
