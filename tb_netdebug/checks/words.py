"""Findings as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from .finding import Finding

WIDTH = 100
MOST_NAMED = 4


def paragraph(finding: Finding, *, width: int = WIDTH) -> str:
    """Several lines: what is wrong, since when, where, and what to try."""
    head = f"{finding.severity.text.upper()} {finding.rule}, {since(finding)}{places(finding.where)}"
    lines = [*_wrapped(head, width), *_indented(finding.message, width)]
    lines += _indented(f"Try: {finding.advice}", width)
    if finding.consequences:
        lines += _indented(f"This also explains: {', '.join(finding.consequences)}.", width)
    return "\n".join(lines)


def since(finding: Finding) -> str:
    if finding.first_step == finding.last_step:
        return f"step {finding.first_step}"
    return f"steps {finding.first_step} to {finding.last_step}"


def places(where: Iterable[str]) -> str:
    """Where, as the end of a line; empty when it is everywhere."""
    named = [f"layer {name}" if name.isdecimal() else name for name in where]
    if not named:
        return ""
    more = len(named) - MOST_NAMED
    return f", in {', '.join(map(printable, named[:MOST_NAMED]))}" + (f" and {more} more" if more > 0 else "")


def printable(text: str) -> str:
    """Names are not ours: nothing in them may move a terminal's cursor."""
    return "".join(each if each.isprintable() else "�" for each in text)


def _indented(text: str, width: int) -> list[str]:
    return _wrapped(text, width, indent="  ")


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Names of checks and layers stay whole where they have room."""
    return textwrap.wrap(
        printable(text), width, initial_indent=indent, subsequent_indent="  ", break_on_hyphens=False
    )
