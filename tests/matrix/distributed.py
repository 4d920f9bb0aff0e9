"""The third part of the matrix: two ranks by torchrun, NaN on one of them, DDP and FSDP2."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.matrix.processes import HUNG, Job, Pool
from tests.matrix.programs import AGAIN, ALONE, RUN
from tests.matrix.ranks import all_cells
from tests.matrix.report import Report
from tests.matrix.slice import RANK_CELLS, RANK_MODES
from tests.matrix.training import BAD_STEP

SCRIPT = Path(__file__).with_name("ranks.py")
RANKS = 2
# The launcher never sleeps for long, so that a hang of its ranks does not show in it.
DEADLINE_SECS = 400.0


class Ranks:
    """One launch a mode trains all cells one after the other; each is compared on both ranks."""

    def __init__(self, arguments: argparse.Namespace, folder: Path, report: Report) -> None:
        self._folder = folder
        self._report = report
        cells = RANK_CELLS if arguments.slice else all_cells()
        self._cells = [cell for cell in cells if re.search(arguments.only, cell)]
        self._modes = RANK_MODES if arguments.slice else arguments.modes
        self._codes: dict[str, int | str] = {}

    def run(self) -> None:
        if not self._cells:
            return
        self._report.expected += len(self._cells) * len(self._modes)
        Pool(1).run(self._jobs([ALONE, *self._modes]))
        for mode in self._modes:
            for cell in self._cells:
                self._report.add("ranks", f"rank/{mode}", cell, self._reasons(cell, mode))

    def _jobs(self, modes: list[str]) -> Iterator[Job]:
        for mode in modes:

            def done(code: int | str, mode: str = mode) -> None:
                self._codes[mode] = code

            folder = self._folder / mode
            yield Job(folder, self._program(mode, folder), done, deadline_secs=DEADLINE_SECS)

    def _program(self, mode: str, folder: Path) -> Callable[[], int]:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        under = ["-m", "tb_netdebug", "run", "--logdir", str(folder / "logs")] if mode == RUN else []
        words = [*launcher, *under, str(SCRIPT), mode, str(folder), *self._cells]

        def run() -> int:
            os.execv(sys.executable, [sys.executable, *words])

        return run

    def _reasons(self, cell: str, mode: str) -> list[str]:
        reasons: dict[str, None] = {}
        for rank in range(RANKS):
            alone, watched = self._of(rank, cell, ALONE), self._of(rank, cell, mode)
            reasons |= dict.fromkeys(name for name in alone if alone[name] != watched.get(name))
            bad = [] if cell.split("/")[1] == "none" else [BAD_STEP]
            if alone.get("bad", [-1])[:1] != bad:
                reasons[f"{ALONE} the NaN was in {alone.get('bad')}"] = None
        if not self._has_recorded(cell, mode):
            reasons["nothing recorded"] = None
        if self._codes[mode] == HUNG and reasons:
            reasons[HUNG] = None
        if self._codes[mode] != self._codes[ALONE]:
            reasons[f"exit code {self._codes[mode]}"] = None
        return list(reasons)

    def _of(self, rank: int, cell: str, mode: str) -> dict[str, Any]:
        path = self._folder / mode / f"rank-{rank}.json"
        found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        return found.get(cell, {"cell": "missing"} if mode == ALONE else {})

    def _has_recorded(self, cell: str, mode: str) -> bool:
        """Under `run`, each training is a run of its own."""
        logs = self._folder / mode / "logs"
        if mode == AGAIN:
            return True
        if mode == RUN:
            return len([each for each in logs.iterdir() if any(each.glob("events.*"))]) >= len(self._cells)
        return any((logs / cell.replace("/", "-")).glob("run/events.*"))
