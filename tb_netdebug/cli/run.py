"""Watch the training of an unchanged PyTorch or Keras script.

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
    parser.add_argument(
        "-m",
        dest="module",
        nargs=argparse.PARSER,
        metavar="MODULE",
        help="run this module instead of a script, with its arguments",
    )
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the script to run, and its arguments"
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how to watch; the notebook magic has them, too."""
    parser.add_argument("--logdir", metavar="D", help="the folder that runs are written to (default: runs)")
    parser.add_argument(
        "--remote",
        metavar="HOST:PORT",
        help="send the run to the collector at this address; without --logdir, no copy stays on this machine",
    )
    parser.add_argument(
        "--run",
        "--name",
        metavar="NAME",
        help="the name of the run (default: date and time); a name that exists already gets a suffix. With "
        "torchrun, write --name: it takes --run as its own option",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the run of this name after its last step (with --run or --name)",
    )
    parser.add_argument(
        "--every",
        metavar="N|auto",
        type=rate,
        default="auto",
        help="take full statistics every N steps; auto: as often as --overhead allows",
    )
    parser.add_argument(
        "--overhead",
        metavar="X",
        type=float,
        default=0.02,
        help="the share of the step time that recording may take (default: 0.02)",
    )
    parser.add_argument(
        "--on-finding",
        choices=ON_FINDING,
        default="print",
        help="what to do about a finding: print it, raise an error in the script, pause for the debugger, "
        "or ignore it",
    )
    parser.add_argument(
        "--debugger",
        metavar="HOST:PORT",
        help="let a TensorBoard pause and step the script: the one on this machine, or the one whose "
        "collector is at HOST:PORT",
    )
    parser.add_argument(
        "--pause-at-start",
        action="store_true",
        help="wait before the first batch until somebody attaches (with --debugger)",
    )
    parser.add_argument(
        "--check-numerics",
        choices=CHECK_NUMERICS,
        default="sampled",
        help="where to look for NaN and infinity: in sampled steps; in the output of every layer in every "
        "step; or in the output of every operation, which more than doubles the step time (default: "
        "sampled)",
    )
    check_wishes.add_check_options(parser)
    parser.add_argument("--include", metavar="RE", help="record only layers and parameters whose names match")
    parser.add_argument("--exclude", metavar="RE", help="leave out layers and parameters whose names match")
    parser.add_argument("--console", action="store_true", help="print one line per step")


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
        raise UserMistake("SCRIPT is missing: netdebug run [options] (SCRIPT | -m MODULE) [ARGS...]")
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
        raise UserMistake("--resume needs the name of the run to continue: add --run NAME")
    if arguments.resume and arguments.logdir is None and wishes["remote"] is not None:
        raise UserMistake(
            "--resume needs --logdir: a run that was only sent leaves nothing on this machine to continue "
            "from"
        )
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
