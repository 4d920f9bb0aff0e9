"""Results as text: for the terminal, for results.md, and for the README."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from bench.results import Column, Part, Promise, Results, Row, Table

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"
HINT = "[All numbers](bench/results.md); `make bench` measures them on your machine."


class MissingMarkersError(ValueError):
    """The README does not say where the numbers are to stand."""


def whole_report(results: Results) -> str:
    """Everything, as Markdown whose tables are readable as they are."""
    chapters = [f"# What NetDebug promises\n\n{when_and_where(results)}", verdict(results.promises)]
    for part in results.parts:
        rounds = f"{part.rounds} rounds" if part.rounds > 1 else "One run"
        chapters.append(
            f"## {part.title}\n\n{part.method}\n\n{rounds}, {part.secs:.0f} s{when(part, results)}."
        )
        chapters += [f"### {table.title}\n\n{table_text(table)}" for table in part.tables]
    return "\n\n".join(chapters) + "\n"


def when(part: Part, results: Results) -> str:
    """Only where it is not as with the others."""
    day = f", on {part.date}" if part.date not in ("", results.date) else ""
    return day + (f", measured elsewhere: {part.elsewhere}" if part.elsewhere else "")


def when_and_where(results: Results) -> str:
    quick = "Quick run: too short to be believed. " if results.is_quick else ""
    minutes = sum(part.secs for part in results.parts) / 60
    lines = [
        f"{quick}Measured on {results.date}, every comparison within one run; {minutes:.0f} minutes in all."
    ]
    width = max(map(len, results.machine), default=0)
    lines += ["", "```", *(f"{name:{width}}  {value}" for name, value in results.machine.items()), "```"]
    return "\n".join(lines)


def verdict(promises: Sequence[Promise]) -> str:
    """The table of promises; numbers are rounded to our disadvantage."""
    rows = [
        [promise.text, limit_text(promise), measured_text(promise), "kept" if promise.is_kept else "not kept"]
        for promise in promises
    ]
    return grid(["what", "promised", "measured", ""], rows, right={1, 2})


def limit_text(promise: Promise) -> str:
    return f"{'≤' if promise.at_most else '≥'} {promise.limit:g} {promise.unit}"


def measured_text(promise: Promise) -> str:
    digits = 2 if promise.limit < 10 else 1
    shown = rounded(promise.measured, digits, up=promise.at_most)
    return f"{shown} {promise.unit}"


def rounded(value: float, digits: int, *, up: bool) -> str:
    """With so many decimals, rounded in the given direction."""
    if not math.isfinite(value):
        return "not measurable"
    scaled = round(value * 10**digits, 6)  # 1.1 * 10 is a hair above 11, which is no reason to show 1.2
    return f"{(math.ceil(scaled) if up else math.floor(scaled)) / 10**digits:.{digits}f}"


def table_text(table: Table) -> str:
    heads = ["", *(column.title for column in table.columns)]
    rows = [[row.title, *cells(row, table.columns)] for row in table.rows]
    return grid(heads, rows, right=set(range(1, len(heads))))


def cells(row: Row, columns: Sequence[Column]) -> list[str]:
    """Ours look rather worse than they are, those of others rather better."""
    pairs = zip(row.values, columns, strict=True)
    return [
        "" if value is None else rounded(value, column.digits, up=(column.better == "less") == row.is_ours)
        for value, column in pairs
    ]


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: set[int]) -> str:
    """A Markdown table with its columns below one another; those in `right` are aligned to the right."""
    widths = [max(3, *(len(line[place]) for line in [heads, *rows])) for place in range(len(heads))]

    def line(texts: Sequence[str]) -> str:
        padded = [
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(texts, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = ["-" * (width - 1) + (":" if place in right else "-") for place, width in enumerate(widths)]
    return "\n".join([line(heads), line(rule), *map(line, rows)])


def readme_section(results: Results) -> str:
    """The machine in a sentence and the promises; the rest is a click away."""
    machine = results.machine
    where = ", ".join(machine[name] for name in ("processor", "memory", "system") if name in machine)
    peers = ", ".join(
        f"{name} {machine[name]}" for name in ("torch", "keras", "tensorboard", "wandb") if name in machine
    )
    told = f"Measured on {results.date}: {where}; {peers}."
    return f"{told} {HINT}\n\n{verdict(results.promises)}"


def update_readme(readme: Path, results: Results) -> None:
    """Replaces what stands between the markers. Raises MissingMarkersError."""
    text = readme.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MissingMarkersError(f"{readme.name} needs a line {BEGIN} and, below it, a line {END}")
    section = readme_section(results)
    readme.write_text(f"{before}{BEGIN}\n{section}\n{END}{after}", encoding="utf-8")
