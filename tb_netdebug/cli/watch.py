"""Show a training run live in the terminal: its vital signs, and its layers, the worst first.

In a terminal, q quits, and tab or an arrow key shows another run. Into a pipe or a file, or with --once, it
prints the current state and ends.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
from pathlib import Path

from rich.console import Console

from tb_netdebug.cli.distant_runs import DistantError, DistantRuns
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.cli.watch_page import Page
from tb_netdebug.cli.watch_screen import Screen, is_ascii
from tb_netdebug.cli.watched_runs import WatchedRuns
from tb_netdebug.cli.watched_source import LocalRuns, RunSource
from tb_netdebug.debugger.client.hub_address import HubAddress

ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[\w.-]*):\d{1,5}")
# Pipes and files have no width; a fixed one makes outputs comparable.
PLAIN_WIDTH = 100
MOST_NAMES = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        metavar="LOGDIR|HOST:PORT",
        help="a run, a folder with runs in it, or a TensorBoard that has NetDebug",
    )
    parser.add_argument("--run", metavar="NAME", help="the run to show first (default: the newest)")
    parser.add_argument("--once", action="store_true", help="print the current state, then exit")
    parser.add_argument(
        "--layers",
        type=layer_count,
        default=40,
        metavar="N",
        help="show at most N layers (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    source = source_of(arguments.place)
    is_live = sys.stdout.isatty() and not arguments.once
    console = Console(width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    runs = WatchedRuns(arguments.place, source, wanted=arguments.run)
    try:
        if is_live and not console.is_dumb_terminal:
            Screen(runs, console, most_layers=arguments.layers).show()
        else:
            print_once(runs, console, most_layers=arguments.layers)
    finally:
        runs.close()
    return 0


def layer_count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"the number of layers must not be negative, but is {text}")
    return number


def source_of(place: str) -> RunSource:
    """Return the source of runs for a path or address. Raise UserMistake for what can never hold a run.

    A folder without a run is accepted: the training may not have started yet.
    """
    path = Path(place)
    is_page = place.startswith(("http://", "https://"))
    if path.is_dir() or ("://" in place and not is_page):
        return LocalRuns(place)
    if path.exists():
        raise UserMistake(f"{harmless(place)} is a file. Give the folder that it is in: {path.parent}")
    if is_page or ADDRESS.fullmatch(place):
        return connected(place)
    raise UserMistake(f"there is no folder {harmless(place)}. Give the logdir of a training, such as `runs`.")


def connected(place: str) -> DistantRuns:
    """Return the runs of a TensorBoard. Raise UserMistake when there is nothing to watch."""
    try:
        found = DistantRuns(HubAddress.of(place))
        found.connect()
    except (ValueError, DistantError, KeyError) as error:
        raise UserMistake(harmless(str(error.args[0]))) from None
    return found


def print_once(runs: WatchedRuns, console: Console, *, most_layers: int) -> None:
    """Print the current state once. Raise UserMistake when there is nothing to print."""
    runs.read_all()
    if not runs.names:
        reasons = " ".join(map(harmless, runs.complaints))
        raise UserMistake(f"there is no run in {harmless(runs.place)} yet. {reasons}".strip())
    if runs.chosen is None:
        known = ", ".join(harmless(name) for name in runs.names[:MOST_NAMES])
        more = ", ..." if len(runs.names) > MOST_NAMES else ""
        raise UserMistake(f"{harmless(runs.place)} has no run of that name. The runs are: {known}{more}")
    if isinstance(console.file, io.TextIOWrapper):
        console.file.reconfigure(errors="replace")  # names may have letters that the encoding lacks
    page = Page(console.width, most_layers=most_layers, ascii_only=is_ascii(console))
    for line in page.lines(runs.view()):
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ignore", crop=False)
