"""`python tests/matrix`: trainings with and without the NetDebug that is installed, compared bit by bit."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def start() -> int:
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: a process that forks has no threads
    os.environ.setdefault("PYTHONHASHSEED", "0")
    # At the end of the path, so that an installed package goes before the checkout's.
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from tests.matrix.command import main

    return main()


if __name__ == "__main__":
    raise SystemExit(start())
