"""`python -m zoo` or `python zoo`: runs from the checkout, and judges with the NetDebug that is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def start() -> int:
    os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported: two programs run side by side
    # At the end of the path, so that an installed package goes before the checkout's.
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from zoo.command import main

    return main()


if __name__ == "__main__":
    raise SystemExit(start())
