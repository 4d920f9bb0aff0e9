"""Runs a network of the demo as fast as it can, and ends it after so many batches.

    python without_pauses.py BATCHES SCRIPT ARGUMENTS...

The networks of the demo wait after each batch so that one can watch them, and train for a time; tests count
batches instead.
"""

from __future__ import annotations

import runpy
import sys
import time
from typing import SupportsIndex

PAUSE = 0.045


def main(batches: int, words: list[str]) -> None:
    left, sleep = batches, time.sleep

    def count(seconds: SupportsIndex | float) -> None:
        nonlocal left
        if seconds != PAUSE:  # some other thread's
            return sleep(seconds)
        left -= 1
        if left == 0:
            sys.exit()

    time.sleep = count
    sys.argv = words
    runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
