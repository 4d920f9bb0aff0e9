"""The `netdebug` command: parses the command line, runs the subcommand, returns the exit code.

A subcommand is a module of this folder with `add_arguments` and `run`; its module docstring is its help text.
A module may also have `spelled_out`, which rewrites the arguments before argparse sees them.
"""

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

# One line per subcommand. The module of a subcommand is imported when it is called, so `--help` imports none.
COMMANDS = {
    "check": "judge recorded runs, for people and for CI",
    "collect": "collect the records of runs on other machines",
    "debug": "step through a running training in this terminal",
    "doctor": "report which parts of NetDebug work on this machine",
    "export": "write recorded runs as CSV files",
    "replay": "show a capsule and run its batch again",
    "run": "record and check the training of an unchanged script",
    "token": "make a token and a certificate for a collector",
    "watch": "show a run live in this terminal",
}
# The exit codes a shell would report for a command that SIGINT or SIGPIPE ended: 128 plus the signal.
INTERRUPTED = 130
NOBODY_READS = 141


class CommandParser(argparse.ArgumentParser):
    """An argument parser that escapes control characters when it quotes a wrong argument."""

    def error(self, message: str) -> NoReturn:
        super().error(visible(message))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0 done, 2 not possible as asked.

    `run` returns the exit code of its script.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        code = _run(words)
        if words[:1] != ["run"]:  # the script may have closed stdout
            sys.stdout.flush()
        return code
    except SystemExit as ending:  # argparse exits after --help and after an error
        return ending.code if isinstance(ending.code, int) else 2
    except UserMistake as mistake:
        print(visible_lines(f"netdebug: {mistake}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if words[:1] == ["run"]:
            raise  # belongs to the script: the process must die of the signal, as under plain Python
        print("netdebug: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        if words[:1] == ["run"]:
            raise
        # The reader, such as `head`, has closed the pipe. Python flushes stdout once more at exit; send that
        # to /dev/null, or it complains of the pipe again.
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
        description="Record, check and debug the training of neural networks.",
        epilog=f"commands:\n{listing}\n\nRun `netdebug COMMAND --help` for more about one of them.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"netdebug {__version__}")
    parser.add_argument("command", nargs="?", choices=sorted(COMMANDS), metavar="COMMAND", help="see below")
    return parser
