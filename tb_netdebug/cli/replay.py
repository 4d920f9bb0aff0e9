"""Show what a capsule holds, and run its batch again.

A capsule is the batch, the weights and the random state of one step; a run writes it when its loss is
not finite, when it crashes, or when `monitor.capsule()` is called.

    netdebug replay runs/night/capsules/step-48213.pt
    netdebug replay runs/night/capsules/step-48213.pt train.py --lr 0.1
    netdebug replay --model net.py:make runs/night/capsules/step-48213.pt

Running the batch again takes the model: give the training SCRIPT (or -m MODULE), or a function that builds
the model. The script runs as `python SCRIPT ARGS` would, up to its first optimizer step and no further. What
it writes goes to a temporary copy; arguments after SCRIPT belong to it.

Files that --model and --loss name are imported, and are also stopped before their first optimizer step. The
callable of --loss gets one argument, the output of the model, and returns a tensor.

The exit code is 0 when everything was finite or nothing was run, 1 when a NaN or infinity was found or the
step failed as it did then, 2 when that was not possible.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import sys
from collections.abc import Sequence

from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.mistakes import UserMistake

TASK = "tb_netdebug.cli.replaying:replay"
VALUED = ("--model", "--loss")
IMPOSSIBLE = 2
# As shells report a process that a signal has ended: this and the number of the signal.
SIGNALLED = 128
# Signals of crashes in native code: in the model, or in torch when it reads a damaged capsule.
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "netdebug replay [options] CAPSULE [(SCRIPT | -m MODULE) [ARGS...]]"
    parser.add_argument("capsule", metavar="CAPSULE", help="a file in a run's folder capsules/")
    parser.add_argument(
        "script",
        metavar="SCRIPT",
        nargs="*",
        help="the training script that builds the model, and its arguments",
    )
    parser.add_argument(
        "-m", dest="is_module", action="store_true", help="take SCRIPT as the name of a module"
    )
    parser.add_argument(
        "--model",
        metavar="MODULE:CALLABLE",
        help="the callable that builds the model; MODULE may be a file such as net.py",
    )
    parser.add_argument(
        "--debug",
        action=argparse.BooleanOptionalAction,
        help="open the debugger, paused before the step (default: yes in a terminal when there is a model)",
    )
    parser.add_argument(
        "--loss",
        metavar="MODULE:CALLABLE",
        help="the callable that gets the model's output and returns the loss for the backward pass "
        "(default: the sum of the outputs)",
    )
    parser.add_argument(
        "--backward", action="store_true", help="also run the backward pass; the debugger always does"
    )


def spelled_out(words: Sequence[str]) -> list[str]:
    """Move our options to the front and end them with `--`: what follows SCRIPT or MODULE belongs to it."""
    options: list[str] = []
    own: list[str] = []
    rest = list(words)
    # The first two words of our own are CAPSULE and SCRIPT.
    while rest and len(own) < 2:
        word = rest.pop(0)
        if word == "--":
            return [*options, "--", *own, *rest]
        if not word.startswith("-") or word == "-":
            own.append(word)
        else:
            options.append(word)
            if word in VALUED and rest:
                options.append(rest.pop(0))
    if rest[:1] == ["--"]:
        rest = rest[1:]
    return [*options, "--", *own, *rest]


def run(arguments: argparse.Namespace) -> int:
    if importlib.util.find_spec("torch") is None:
        raise UserMistake("capsules hold torch tensors, and torch is not installed here: pip install torch")
    if arguments.script and arguments.model:
        raise UserMistake("give either SCRIPT or --model, not both")
    if arguments.is_module and not arguments.script:
        raise UserMistake("MODULE is missing: netdebug replay CAPSULE -m MODULE [ARGS...]")
    from tb_netdebug.experiments.rehearsal.confinement import hold

    # The held process writes to the same stdout; flush first, to keep the order.
    sys.stdout.flush()
    report = hold(TASK, {**vars(arguments), "is_for_debugger": is_for_debugger(arguments.debug)})
    if arguments.script or arguments.model:
        for sentence in report.sentences():
            print(f"netdebug: {harmless(sentence)}", file=sys.stderr)
    if report.is_done:
        return report.status
    named = arguments.script[0] if arguments.script else arguments.model or arguments.capsule
    if report.status >= 0 and (arguments.script or arguments.model):
        raise UserMistake(
            f"{named} ended the process itself ({report.ending}) before its first optimizer step"
        )
    if -report.status == signal.SIGALRM:
        raise UserMistake(f"{arguments.capsule} cannot be read as a capsule: reading it takes too long")
    if -report.status in CRASHES:
        raise UserMistake(f"the replay of {arguments.capsule} crashed ({report.ending})")
    if report.status < 0:
        print(f"netdebug: the replay was ended by {report.ending}: {named}", file=sys.stderr)
        return SIGNALLED - report.status
    return IMPOSSIBLE


def is_for_debugger(wish: bool | None) -> bool:
    """Return whether to open the debugger: as asked, else only at a terminal; a pipe gets the table."""
    return sys.stdin.isatty() and sys.stdout.isatty() if wish is None else wish
