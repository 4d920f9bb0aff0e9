"""`make page-dev`: the page from its sources, with hot reload, over trainings in a real TensorBoard.

The trainings are recorded at the first start, and again when their folder is gone. One more is live, and can
be paused.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import board
from board import Board, BoardError
from children import Child
from ending import run_to_the_end
from recordings import PROGRAMS, recorded
from show import shown

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FRONTEND = ROOT / "frontend"
VITE = FRONTEND / "node_modules/vite/bin/vite.js"
ADDRESS = re.compile(r"Local: +(http://\S+)\s")
A_DAY = 86400.0
LOOK_SECS = 0.25


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit code; all children have ended by then."""
    options = parser().parse_args(words)
    return run_to_the_end(partial(run, options), closing="All that was started has ended.")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python demo/page_dev.py", description=__doc__)
    place = ROOT / "build/page-dev"
    made.add_argument("--folder", type=Path, default=place, help="of the runs (default: build/page-dev)")
    made.add_argument("--seconds", type=float, default=20.0, help="how long to record (default: %(default)s)")
    return made


def run(options: argparse.Namespace, children: list[Child]) -> int:
    folder = options.folder.absolute()
    logdir = recorded(folder, seconds=options.seconds, children=children)
    print(f"  runs    {shown(logdir)}", flush=True)
    ready = start_board(logdir, folder / "output", children)
    page = Child.run("The server of the page", vite(), output=folder / "output/page.txt", env=told(ready))
    children.append(page)
    print(f"  page    {board.address(page, ADDRESS, page.ending)} from {shown(FRONTEND)}/src", flush=True)
    print(f"  data    {ready.page}. Ctrl-C ends both.", flush=True)
    while page.is_running and ready.child.is_running:
        time.sleep(LOOK_SECS)
    raise BoardError((ready.child if page.is_running else page).ending())


def start_board(logdir: Path, output: Path, children: list[Child]) -> Board:
    """Return a TensorBoard over the recordings, where a network trains live; raise BoardError."""
    live = logdir / "live"
    shutil.rmtree(live, ignore_errors=True)  # of the last time
    tensorboard = board.start(logdir, port=0, output=output / "tensorboard.txt")
    children.append(tensorboard)
    words: list[str | Path] = [HERE / PROGRAMS["healthy"], "--logdir", live, "--seconds", str(A_DAY)]
    children.append(Child.start("The live training", words, output=output / "live.txt"))
    ready = board.wait_for(tensorboard, port=0)
    ready.check_page()
    return ready


def vite() -> list[str | Path]:
    """Return the command that serves the page; its configuration passes requests for data on."""
    return ["node", VITE, FRONTEND, "--config", FRONTEND / "vite.dev.config.ts", "--clearScreen", "false"]


def told(ready: Board) -> dict[str, str]:
    """Return what the server of the page is told: where the data is, and that nobody sees its colours."""
    return {"NETDEBUG_API": f"{ready.url}/data/plugin/netdebug/", "NO_COLOR": "1"}


if __name__ == "__main__":
    sys.exit(main())
