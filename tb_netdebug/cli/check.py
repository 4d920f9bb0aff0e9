"""Judge recorded trainings: what is wrong, where, since when, and what to try.

Every run below LOGDIR is judged anew from what was recorded, also when it still trains; runs of other
writers by their curves and histograms. Thresholds come from the command line, else from netdebug.toml.

Exit code: 0 when nothing is found at or above --fail-on, 1 when something is, 2 when a run, or LOGDIR,
cannot be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.checks.rules import ALL
from tb_netdebug.checks.words import paragraph, printable
from tb_netdebug.cli.check_wishes import add_check_options, wishes
from tb_netdebug.cli.mistakes import UserMistake
from tb_netdebug.judging.logdir import CheckError, judged
from tb_netdebug.judging.report import Report, RunReport

FAIL_ON = {"error": Severity.ERROR, "warning": Severity.WARNING}
STYLES = {"sick": "bold red", "suspect": "yellow", "healthy": "green", "unreadable": "magenta"}
SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
STEPS_DOWN = (Severity.ERROR, Severity.WARNING, Severity.INFO)
UNREADABLE = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("logdir", metavar="LOGDIR", nargs="?", help="a run, or a folder with runs in it")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument(
        "--fail-on",
        choices=(*FAIL_ON, "never"),
        default="error",
        help="the least severity that makes the exit code 1 (default: %(default)s)",
    )
    add_check_options(parser)
    parser.add_argument(
        "--all", action="store_true", help="also print consequences, notes, and what could not be judged"
    )
    parser.add_argument("--list", action="store_true", help="list all checks with their thresholds")


def run(arguments: argparse.Namespace) -> int:
    if arguments.list:
        print_checks()
        return 0
    if arguments.logdir is None:
        raise UserMistake("which runs? Give the folder that the training wrote to: netdebug check runs")
    try:
        report = judged(Path(arguments.logdir), wishes(arguments), tell=tell)
    except (CheckError, ValueError) as error:
        raise UserMistake(str(error)) from error
    except OSError as error:
        raise UserMistake(f"{error.filename or arguments.logdir}: {error.strerror or error}") from error
    finally:
        tell("")
    if arguments.json:
        print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
    else:
        show(report, Console(highlight=False, soft_wrap=False), everything=arguments.all)
    return exit_code(report, arguments.fail_on)


def exit_code(report: Report, fail_on: str) -> int:
    if fail_on in FAIL_ON and report.worst >= FAIL_ON[fail_on]:
        return 1
    return UNREADABLE if any(not one.is_readable for one in report.runs) else 0


def tell(run: str) -> None:
    """On a terminal, what is judged just now."""
    if sys.stderr.isatty():
        text = f"judging {printable(run)}" if run else ""
        sys.stderr.write(f"\r\x1b[2K{text[:79]}")
        sys.stderr.flush()


# ---- text


def show(report: Report, console: Console, *, everything: bool = False) -> None:
    """A line a run, then what was found in each."""
    console.print(overview(report.runs))
    for one in report.runs:
        listed = [each for each in one.findings if everything or is_cause(each, one.findings)]
        if listed or one.complaints or (everything and one.not_judged):
            console.print(Text(f"\n{printable(one.run)}", style="bold"))
        for complaint in one.complaints[:5]:
            console.print(Text(f"  {printable(complaint)}", style="dim"))
        for finding in listed:
            text = Text(paragraph(finding, width=min(console.width - 1, 100)))
            text.stylize(SEVERITY_STYLES[finding.severity], 0, len(finding.severity.text))
            console.print(text)
        if everything:
            for slug, needs in one.not_judged.items():
                console.print(Text(f"  {slug} could not be judged: it needs {needs}", style="dim"))


def is_cause(finding: Finding, all_found: Sequence[Finding]) -> bool:
    """Its consequences stand by name below a cause; notes are for who asks for all."""
    is_explained = any(each.rule == finding.cause for each in all_found)
    return finding.severity > Severity.INFO and not is_explained


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
    """Each with its thresholds, as they are by default."""
    width = max(len(rule.slug) for rule in ALL) + 2
    for rule in ALL:
        limits = rule.limits
        told = [f"{each.name}={getattr(limits, each.name):g}" for each in fields(limits)] if limits else []
        sys.stdout.write(f"{rule.slug:<{width}}{'  '.join(told)}".rstrip() + "\n")
