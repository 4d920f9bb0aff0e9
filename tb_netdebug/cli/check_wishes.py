"""Options that switch checks off and set their thresholds; they override `netdebug.toml`.

Used by `netdebug check`, `netdebug run` and the notebook magic.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.judging.configuration import FILE, ConfigurationError, checks_of, joined, read_checks


def add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="CHECK.NAME=NUMBER",
        help="set a threshold, such as dead-units.share=0.8; may be repeated (`netdebug check --list` lists "
        "them)",
    )
    parser.add_argument(
        "--off", action="append", default=[], metavar="CHECK", help="switch a check off; may be repeated"
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help=f"the file with the settings of the checks (default: {FILE} in this folder)",
    )


def wishes(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the check settings of the command line, merged over those of --config. Raise UserMistake."""
    given: dict[str, Any] = dict.fromkeys(arguments.off, False)
    for text in arguments.set:
        given = joined(given, {slug: {name: value} for slug, name, value in (threshold(text),)})
    try:
        if arguments.config is None:
            return checks_of(given, Path())
        return joined(read_checks(arguments.config), given)
    except ConfigurationError as error:
        raise UserMistake(str(error)) from error
    except OSError as error:
        raise UserMistake(f"{arguments.config or FILE}: {error.strerror or error}") from error


# Run in a child process; prints the error of the first unknown check or threshold.
KNOWN = """
import json, sys
from tb_netdebug.checks.engine import Engine
try:
    Engine(json.load(sys.stdin))
except ValueError as error:
    print(error)
"""


def refuse_unknown(wishes: dict[str, Any]) -> None:
    """Raise UserMistake for checks and thresholds that do not exist.

    A child process looks them up: the rules import NumPy, which a script may want to import first.
    """
    if not wishes:
        return
    looked = subprocess.run(
        [sys.executable, "-c", KNOWN], input=json.dumps(wishes), capture_output=True, text=True, check=False
    )
    if looked.stdout.strip():
        raise UserMistake(looked.stdout.strip())


def threshold(text: str) -> tuple[str, str, float]:
    """Split text such as `dead-units.share=0.8` into its three parts. Raise UserMistake."""
    place, _, number = text.partition("=")
    slug, _, name = place.partition(".")
    try:
        value = float(number)
    except ValueError:
        value = float("nan")
    # value != value only for NaN: not a number, or the text "nan"
    if not name or value != value:
        raise UserMistake(f"--set {text}: expected CHECK.NAME=NUMBER, such as dead-units.share=0.8")
    return slug, name, int(value) if value.is_integer() else value
