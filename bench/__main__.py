"""`python bench`: runs from the checkout, and measures the NetDebug that is installed."""

from __future__ import annotations

import sys
from pathlib import Path


def start() -> int:
    # At the end of the path, so that an installed package goes before the checkout's.
    sys.path[:1] = []
    sys.path.append(str(Path(__file__).resolve().parent.parent))
    from tests.support.tensorboard_process import WITHOUT_TENSORFLOW

    # It is there for the part about Keras, which has processes of its own. TensorBoard and `SummaryWriter`
    # would read and write through it, and TensorBoard would need three times the memory.
    exec(WITHOUT_TENSORFLOW, {})
    from bench.command import main

    return main()


if __name__ == "__main__":
    raise SystemExit(start())
