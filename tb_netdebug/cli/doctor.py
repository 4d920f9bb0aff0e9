"""Report which parts of NetDebug work on this machine, and what to do about the rest.

The exit code is 0 when all is well, 1 when something makes NetDebug slow or blind.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tb_netdebug.cli.diagnosis import Diagnosis, State, examine
from tb_netdebug.core.records.visible import json_text, visible

MARKS = {State.GOOD: ("✓", "green"), State.NOTE: ("·", "yellow"), State.PROBLEM: ("✗", "bold red")}
PLAIN_MARKS = {State.GOOD: "ok", State.NOTE: "note", State.PROBLEM: "PROBLEM"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--logdir", default="runs", help="where event files will go (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(arguments: argparse.Namespace) -> int:
    facts = examine(logdir=arguments.logdir)
    problems = [fact for fact in facts if fact.state is State.PROBLEM]
    if arguments.json:
        listed = [asdict(fact) | {"state": fact.state.value} for fact in facts]
        print(json_text({"schema": 1, "well": not problems, "facts": listed}, indent=2))
    elif sys.stdout.isatty() and sys.stdout.encoding.lower().startswith("utf"):
        print_table(facts, Console())
    else:
        print_plain(facts)
    if not arguments.json:
        print(closing(problems))
    return 1 if problems else 0


def print_table(facts: Iterable[Diagnosis], console: Console) -> None:
    """Print one row per fact, with the next step below it; for people."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_column()
    table.add_column(overflow="fold")
    topic = ""
    for fact in facts:
        if topic and topic != fact.topic:
            table.add_row()
        mark, style = MARKS[fact.state]
        value = Text(visible(fact.value), style="" if fact.state is State.GOOD else style)
        table.add_row("" if topic == fact.topic else fact.topic, Text(mark, style=style), fact.name, value)
        if fact.advice:
            table.add_row("", "", "", Text(f"→ {visible(fact.advice)}", style="italic"))
        topic = fact.topic
    console.print(table, "")


def print_plain(facts: Iterable[Diagnosis]) -> None:
    """Print one line per fact, for files and pipes."""
    for fact in facts:
        print(f"{PLAIN_MARKS[fact.state]:<8}{fact.topic:<12}{fact.name:<16}{visible(fact.value)}")
        if fact.advice:
            print(f"{'':<36}next: {visible(fact.advice)}")


def closing(problems: list[Diagnosis]) -> str:
    if not problems:
        return "All is well."
    names = ", ".join(f"{fact.topic}/{fact.name}" for fact in problems)
    what = "1 problem makes" if len(problems) == 1 else f"{len(problems)} problems make"
    return f"{what} NetDebug slow or blind here: {names}."
