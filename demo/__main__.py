"""`make demo`: trains one network, records it, and shows what was recorded."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from digits import train
from picture import show

import tb_netdebug as nd


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--logdir", default="runs", help="where the run is written (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=400, help="batches to train (default: %(default)s)")
    arguments = parser.parse_args()
    print(
        f"NetDebug {nd.__version__}: training a small network on handwritten digits, every batch recorded.\n"
    )
    try:
        run = train(Path(arguments.logdir), steps=arguments.steps)
    except KeyboardInterrupt:
        print("\nStopped. What was recorded until now is kept.")
        return 130
    show(run)
    return 0


if __name__ == "__main__":
    sys.exit(main())
