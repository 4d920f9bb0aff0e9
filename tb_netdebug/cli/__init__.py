"""The `netdebug` command. A subcommand is a module of this folder with `add_arguments` and `run`."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.core.records.visible import visible, visible_lines
from tb_netdebug.version import __version__

# One line a subcommand; its module is imported when it is called, so that `--help` needs none of them.
COMMANDS = {
    "check": "judge recorded trainings, for people and for CI",
    "collect": "take in the records of trainings on other machines",
    "debug": "step through a running training in this terminal",
    "doctor": "say what of NetDebug works on this machine",
    "export": "write what was recorded as CSV files",
    "replay": "show a capsule, and run its batch again",
    "run": "watch the training of an unchanged script",
    "token": "make a token and a certificate for a collector",
    "watch": "show a training live in this terminal",
}
INTERRUPTED = 130
NOBODY_READS = 141


class CommandParser(argparse.ArgumentParser):
    """Quotes a wrong argument as text that can do nothing to a terminal."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line. Returns the exit code: 0 done, 2 not possible as asked; `run` has its script's."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(words)
        if words[:1] != ["run"]:  # a script may have closed it
            sys.stdout.flush()
        return code
    except SystemExit as ending:  # argparse ends this way after --help and after a mistake
        return ending.code if isinstance(ending.code, int) else 2
    except UserMistake as mistake:
        print(visible_lines(f"netdebug: {mistake}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if words[:1] == ["run"]:
            raise  # the script's: the process has to end by the signal, as under Python itself
        print("netdebug: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        if words[:1] == ["run"]:
            raise
        # whoever reads, such as `head`, has enough; what Python would still write at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS


def _run(words: list[str]) -> int:
    arguments = _parser().parse_args(words[:1])
    if arguments.command is None:
        _parser().print_help()
        return 2
    module = importlib.import_module(f"{__name__}.{arguments.command}")
    parser = CommandParser(
        prog=f"netdebug {arguments.command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    spelled_out = getattr(module, "spelled_out", list)
    code: int = module.run(parser.parse_args(spelled_out(words[1:])))
    return code


def _parser() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:<10} {purpose}" for name, purpose in sorted(COMMANDS.items()))
    parser = CommandParser(
        prog="netdebug",
        usage="netdebug [-h] [--version] COMMAND ...",
        description="Looks at recorded trainings of neural networks.",
        epilog=f"commands:\n{listing}\n\n`netdebug COMMAND --help` tells more about one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"netdebug {__version__}")
    parser.add_argument("command", nargs="?", choices=sorted(COMMANDS), metavar="COMMAND", help="see below")
    return parser
