"""Runs scripts one after the other, two at a time, each in a child that has torch already.

    python run_scripts.py FOLDER 'NAME SCRIPT ARGUMENTS'...

Each gets the folder NAME below FOLDER as its current one. Prints a line of JSON for each that has
ended: its name and exit code; what it wrote is in `output` beside its runs.
"""

from __future__ import annotations

import json
import os
import runpy
import shlex
import sys
import traceback
from pathlib import Path

AT_ONCE = 2


def main(folder: Path, scripts: list[list[str]]) -> None:
    import torch

    import tb_netdebug as nd

    nd.watch  # noqa: B018 - imported here once, for all children
    torch.set_num_threads(1)
    waiting, running = list(scripts), dict[int, str]()
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            name, *script = waiting.pop(0)
            running[start(script, folder / name)] = name
        process, status = os.wait()
        told = {"script": running.pop(process), "code": os.waitstatus_to_exitcode(status)}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def start(script: list[str], folder: Path) -> int:
    """The number of the child."""
    folder.mkdir(parents=True)
    process = os.fork()
    if process == 0:
        sys.exit(run(script, folder))
    return process


def run(script: list[str], folder: Path) -> int:
    os.chdir(folder)
    output = os.open("output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = script
    try:
        runpy.run_path(script[0], run_name="__main__")
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else int(ending.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), [shlex.split(each) for each in sys.argv[2:]])
