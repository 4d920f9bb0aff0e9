"""Runs a program as `python SCRIPT ...` or `python -m MODULE ...` would, and ends it with whoever started it.

The starter holds the other end of the standard input and never writes to it. However the starter ends, by
`kill -9` too, the system closes that end, and nobody is left behind.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading


def main(words: list[str]) -> None:
    threading.Thread(target=follow_starter, name="tether", daemon=True).start()
    del sys.path[0]  # this folder, whose modules are no concern of the program
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        runpy.run_path(words[0], run_name="__main__")


def follow_starter() -> None:
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(sys.argv[1:])
