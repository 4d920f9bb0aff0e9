"""`make demo`: three networks train live, two of them are sick, and TensorBoard shows it."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from children import Child
from ending import run_to_the_end
from show import Show, new_folder, open_browser, shown

import tb_netdebug as nd


def main(words: Sequence[str] | None = None) -> int:
    """Return the exit code; all children have ended by then."""
    options = parser().parse_args(words)
    return run_to_the_end(partial(run, options), closing="All that the demo started has ended.")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python demo", description=__doc__)
    made.add_argument("--seconds", type=duration, default=600.0, help="how long they train (default: 600)")
    made.add_argument(
        "--port", type=port, default=0, help="where TensorBoard listens (default: any free port)"
    )
    made.add_argument("--no-browser", action="store_true", help="print the address and open no browser")
    made.add_argument(
        "--logdir", default="runs/demo", help="where a new folder is made (default: %(default)s)"
    )
    made.add_argument(
        "--smoke", action="store_true", help="look at the page in a headless browser, then end with 0 or 1"
    )
    return made


def duration(text: str) -> float:
    secs = float(text)
    if not 0 < secs < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no length of time")
    return secs


def port(text: str) -> int:
    number = int(text)
    if not 0 <= number < 65536:
        raise argparse.ArgumentTypeError(f"{text} is no port: they go from 0, any free one, to 65535")
    return number


def run(options: argparse.Namespace, children: list[Child]) -> int:
    folder = new_folder(Path(options.logdir).absolute())
    print(
        f"NetDebug {nd.__version__}: three networks learn to read handwritten digits. Two of them are sick.\n"
    )
    print(f"  runs    {shown(folder)}", flush=True)
    show = Show(folder, children)
    ready = show.start(seconds=options.seconds, port=options.port)
    print(f"  page    {ready.page}", flush=True)
    if options.smoke:
        sys.path.append(str(Path(__file__).resolve().parents[1]))  # for what the tests look with
        from smoke import look

        look(ready, show.trainings)
        return 0
    if not options.no_browser:
        open_browser(ready.page)
    show.follow(ready, seconds=options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
