"""Judge recorded runs: what is wrong, where, since when, and what to try.

Every run below LOGDIR is judged anew from its recording, even while it still trains; runs that other tools
wrote are judged by their curves and histograms. Thresholds come from the command line, else from
netdebug.toml.

A run without a recorded step is unknown, never healthy; the reason is printed.

Exit code: 1 when a run has a finding at or above --fail-on; else 2 when no run could be judged, or when one
of them or LOGDIR cannot be read; else 0. An unknown run beside judged ones does not change it. With --fail-on
never, findings do not make it 1, but it is still 2 when nothing could be judged.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules import ALL
from tb_netdebug.checks.wording.words import WIDTH, indented, paragraph, printable
from tb_netdebug.cli.check_wishes import add_check_options, wishes
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.cli.progress import ProgressLine
from tb_netdebug.core.records.visible import json_text
from tb_netdebug.judging.logdir import judged
from tb_netdebug.judging.report import FAIL_ON, Report, RunReport

STYLES = {"sick": "bold red", "suspect": "yellow", "healthy": "green", "unknown": "magenta"}
SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
STEPS_DOWN = (Severity.ERROR, Severity.WARNING, Severity.INFO)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logdir", metavar="LOGDIR", nargs="?", help="a run, or a folder with runs in it")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument(
        "--fail-on",
        choices=(*FAIL_ON, "never"),
        default="error",
        help="the lowest severity that makes the exit code 1 (default: %(default)s); with never, the exit "
        "code is 0, or 2 when nothing could be judged",
    )
    add_check_options(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="also print consequences, notes, and checks that could not be judged",
    )
    parser.add_argument("--list", action="store_true", help="list all checks with their thresholds")


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        print_checks()
        return 0
    if arguments.logdir is None:
        raise UserMistake(
            "LOGDIR is missing. Give the folder that the training wrote to, such as: netdebug check runs"
        )
    path, line = Path(arguments.logdir), ProgressLine()
    try:
        report = judged(path, wishes(arguments), tell=lambda run: line.show(f"judging {run}"))
    except (OSError, ValueError) as error:
        sentence = why_not(error, arguments.logdir)
        if arguments.json:  # prints an object even when nothing can be judged
            print_object({**Report(str(path), []).as_dict(), "error": sentence})
        raise UserMistake(sentence) from error
    finally:
        line.clear()
    if arguments.json:
        print_object(report.as_dict())
    else:
        show(report, Console(highlight=False, soft_wrap=False), everything=arguments.all)
    return report.exit_code(arguments.fail_on)


def why_not(error: OSError | ValueError, logdir: str) -> str:
    """Return why nothing can be judged, as a sentence."""
    if isinstance(error, OSError):
        return f"{error.filename or logdir}: {error.strerror or error}"
    return str(error)


def print_object(told: dict[str, Any]) -> None:
    print(json_text(told, indent=2))


# ---- text


def show(report: Report, console: Console, *, everything: bool = False) -> None:
    """Print a line per run, then the findings of each."""
    console.print(overview(report.runs))
    for one in report.runs:
        listed = [each for each in one.findings if everything or is_cause(each)]
        if listed or one.reason or one.complaints or (everything and one.not_judged):
            console.print(Text(f"\n{printable(one.run)}", style="bold"))
        if one.reason:
            console.print(
                Text("\n".join(indented(one.reason, min(console.width - 1, WIDTH)))), soft_wrap=True
            )
        for complaint in one.complaints[:5]:
            # The reason may quote the complaint already.
            if complaint.rstrip(".") not in (one.reason or ""):
                console.print(Text(f"  {printable(complaint)}", style="dim"))
        for finding in listed:
            text = Text(paragraph(finding, width=min(console.width - 1, WIDTH)))
            text.stylize(SEVERITY_STYLES[finding.severity], 0, len(finding.severity.text))
            console.print(text, soft_wrap=True)  # already wrapped, but for commands
        if everything:
            for slug, needs in one.not_judged.items():
                console.print(Text(f"  {slug} could not be judged: it needs {needs}", style="dim"))


def is_cause(finding: Finding) -> bool:
    """Return whether a finding is listed by default: not a note, and not the consequence of another finding.

    Consequences are named below their cause.
    """
    return finding.severity > Severity.INFO and finding.cause is None


def overview(runs: Sequence[RunReport]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("run", "steps", "verdict", "errors", "warnings", "notes"):
        table.add_column(
            name, justify="right" if name in ("steps", "errors", "warnings", "notes") else "left"
        )
    for one in runs:
        counts = [sum(each.severity is severity for each in one.findings) for severity in STEPS_DOWN]
        verdict = Text(one.verdict, style=STYLES[one.verdict])
        table.add_row(
            Text(printable(one.run)), str(one.steps), verdict, *(str(each or "") for each in counts)
        )
    return table


def print_checks() -> None:
    """Print every check with its default thresholds."""
    width = max(len(rule.slug) for rule in ALL) + 2
    for rule in ALL:
        limits = rule.limits
        told = [f"{each.name}={getattr(limits, each.name):g}" for each in fields(limits)] if limits else []
        sys.stdout.write(f"{rule.slug:<{width}}{'  '.join(told)}".rstrip() + "\n")
