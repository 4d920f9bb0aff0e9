"""A script of the matrix as a process: forked from one that has imported everything, or started afresh."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

# Nothing watches: `AGAIN` is compared with `ALONE`, and what differs then is a fault of the matrix.
ALONE, AGAIN, RUN = "alone", "again", "run"


def forked(script: Path, words: list[str], *, mode: str, folder: Path) -> Callable[[], int]:
    """Runs it in this process."""

    def run() -> int:
        if mode == RUN:
            from tb_netdebug.cli import main

            sys.argv = ["netdebug", *run_options(folder), str(script), *words]
            return main()
        sys.argv = [str(script), *words]
        runpy.run_path(str(script), run_name="__main__")
        return 0

    return run


def fresh(script: Path, words: list[str], *, mode: str, folder: Path) -> Callable[[], int]:
    """Becomes an interpreter of its own."""
    before = ["-m", "tb_netdebug", *run_options(folder)] if mode == RUN else []

    def run() -> int:
        os.execv(sys.executable, [sys.executable, *before, str(script), *words])

    return run


def run_options(folder: Path) -> list[str]:
    """Of `netdebug`, before the script."""
    return ["run", "--logdir", str(folder / "logs"), "--run", "run"]
