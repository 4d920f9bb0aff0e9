"""Watch the training of an unchanged PyTorch script.

    netdebug run train.py --lr 0.1
    netdebug run --logdir logs --every 1 -m mypackage.train --epochs 3
    torchrun --nproc-per-node 2 -m tb_netdebug run --name first train.py

The script runs as under `python SCRIPT`, with its own exit status. Arguments after SCRIPT or MODULE belong to
it; options of netdebug come before. Models, optimizers and losses are found automatically.
"""

from __future__ import annotations

import argparse
import atexit
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from tb_netdebug.cli import check_wishes
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.recording.remote import remote_of
from tb_netdebug.recording.settings import CHECK_NUMERICS, Settings
from tb_netdebug.training.zero_code.driver import ZeroCode
from tb_netdebug.training.zero_code.script import Script, run_as_main

# The value of `--debugger` without an address.
HERE = "here"
ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]*):[0-9]{1,5}")
# Options that take no value.
ALONE = ("--console", "--pause-at-start", "--resume", "--help")
ON_FINDING = ("print", "raise", "pause", "ignore")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "netdebug run [options] (SCRIPT | -m MODULE) [ARGS...]"
    add_options(parser)
    parser.add_argument("-m", dest="module", nargs=argparse.PARSER, metavar="MODULE", help="run a module")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="and its arguments")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to watch; the notebook magic has them, too."""
    parser.add_argument("--logdir", metavar="D", help="write the runs into this folder (default: runs)")
    parser.add_argument(
        "--remote",
        metavar="HOST:PORT",
        help="send what is recorded to the collector there; without --logdir nothing stays here",
    )
    parser.add_argument(
        "--run",
        "--name",
        metavar="NAME",
        help="call the run this (default: date and time); one that exists already gets a suffix. "
        "torchrun takes --run for one of its own: say --name there",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run of that name, behind its last step (with --run or --name)",
    )
    parser.add_argument(
        "--every",
        metavar="N|auto",
        type=rate,
        default="auto",
        help="full statistics in every N-th step; auto: as often as --overhead allows",
    )
    parser.add_argument(
        "--overhead",
        metavar="X",
        type=float,
        default=0.02,
        help="share of the step time that watching may take (default: 0.02)",
    )
    parser.add_argument(
        "--on-finding",
        choices=ON_FINDING,
        default="print",
        help="what to do when something is wrong: print it, raise an error in the script, pause for the "
        "debugger, or ignore it",
    )
    parser.add_argument(
        "--debugger",
        metavar="HOST:PORT",
        help="let a TensorBoard pause and step the script: that of this machine, or the one whose collector "
        "is at HOST:PORT",
    )
    parser.add_argument(
        "--pause-at-start",
        action="store_true",
        help="wait before the first batch until somebody comes to the debugger (with --debugger)",
    )
    parser.add_argument(
        "--check-numerics",
        choices=CHECK_NUMERICS,
        default="sampled",
        help="where NaN and infinity are looked for: in sampled steps; in the output of every layer in every "
        "step; in that of every operation, which takes more than twice the time (default: sampled)",
    )
    check_wishes.add_check_options(parser)
    parser.add_argument("--include", metavar="RE", help="only layers and parameters whose names match")
    parser.add_argument("--exclude", metavar="RE", help="no layers and parameters whose names match")
    parser.add_argument("--console", action="store_true", help="print a line a step")


def spelled_out(words: Sequence[str]) -> list[str]:
    """Complete a bare `--debugger`, so that argparse does not take the script for its address.

    The next word is its address only if it looks like one. Nothing after the name of the script is touched.
    """
    found = list(words)
    place = 0
    while place < len(found) and found[place].startswith("--"):
        if found[place] == "--debugger":
            is_address = place + 1 < len(found) and ADDRESS.fullmatch(found[place + 1]) is not None
            found[place : place + 1 + is_address] = [f"--debugger={found[place + 1] if is_address else HERE}"]
        place += 1 if "=" in found[place] or found[place] in ALONE else 2
    return found


def run(arguments: argparse.Namespace) -> int:
    script = script_of(arguments)
    watched = ZeroCode(settings_of(arguments), rank=rank())
    atexit.register(watched.finish)  # registered first, so it runs last
    watched.install()
    try:
        ending = run_as_main(script)
    except OSError as error:
        watched.forget()
        raise UserMistake(f"cannot open {script.name!r}: {error.strerror or error}") from None
    if ending.error is not None:
        watched.interrupted(type(ending.error))
    else:
        watched.exit_status = ending.status
    if isinstance(ending.error, KeyboardInterrupt):
        # Not at exit: a module imported there would make Python forget that it was interrupted.
        watched.finish()
        sys.excepthook = lambda *_: None  # the traceback has been shown
        raise ending.error
    return ending.status


def script_of(arguments: argparse.Namespace) -> Script:
    words = [*(arguments.module or []), *arguments.script]
    if not words:
        raise UserMistake("which script? netdebug run [options] (SCRIPT | -m MODULE) [ARGS...]")
    return Script(words[0], tuple(words[1:]), is_module=arguments.module is not None)


def settings_of(arguments: argparse.Namespace) -> Settings:
    names = (
        "logdir", "run", "every", "overhead", "on_finding", "include", "exclude", "console", "debugger",
        "pause_at_start", "resume", "check_numerics",
    )  # fmt: skip
    wishes: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    wishes["debugger"] = True if arguments.debugger == HERE else arguments.debugger
    wishes["remote"] = remote_of(arguments.remote, os.environ)
    wishes["checks"] = check_wishes.wishes(arguments)
    check_wishes.refuse_unknown(wishes["checks"])
    if arguments.resume and arguments.run is None:
        raise UserMistake("--resume needs the name of the run that is to go on: add --run NAME")
    if arguments.resume and arguments.logdir is None and wishes["remote"] is not None:
        raise UserMistake("--resume needs --logdir: of what was only sent nothing is here to go on from")
    try:
        return Settings(**wishes)
    except (TypeError, ValueError) as error:
        raise UserMistake(str(error)) from None


def rate(text: str) -> int | str:
    return text if text == "auto" else int(text)


def rank() -> int:
    """Return the rank of this process, as `recording.run_folder` does, before anything heavy is imported."""
    for name in ("RANK", "SLURM_PROCID"):
        if os.environ.get(name, "").isdigit():
            return int(os.environ[name])
    return 0
