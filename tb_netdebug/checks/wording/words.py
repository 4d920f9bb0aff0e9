"""Writes findings as text for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from tb_netdebug.checks.finding import Finding
from tb_netdebug.checks.wording.phrases import listed
from tb_netdebug.core.records.visible import visible

WIDTH = 100
# A command that is to be copied from a terminal.
COMMAND = re.compile(r"`(netdebug replay [^`]+)`")


def paragraph(finding: Finding, *, told: Finding | None = None, width: int = WIDTH) -> str:
    """Return a finding as several lines: what is wrong, since when, where, and what to try.

    `told` is the same finding as it was reported before: then the text says that it got worse, and does not
    repeat advice that is the same.
    """
    lines = [*_wrapped(f"{head(finding, told)}{places(finding.where)}", width)]
    lines += indented(finding.message, width)
    is_known = told is not None and told.advice == finding.advice
    lines += indented("Try: as said above." if is_known else f"Try: {finding.advice}", width)
    if finding.consequences:
        lines += indented(f"This also explains: {', '.join(finding.consequences)}.", width)
    return "\n".join(lines)


def head(finding: Finding, told: Finding | None) -> str:
    """Return a line such as "WARNING loss-spike, step 3", or "Now an ERROR: loss-spike, steps 3 to 80"."""
    word = finding.severity.text.upper()
    if told is None or told.severity is finding.severity:
        return f"{word} {finding.rule}, {since(finding)}"
    return f"Now {'an' if word[0] in 'EI' else 'a'} {word}: {finding.rule}, {since(finding)}"


def since(finding: Finding) -> str:
    if finding.first_step == finding.last_step:
        return f"step {finding.first_step}"
    return f"steps {finding.first_step} to {finding.last_step}"


def places(where: Iterable[str]) -> str:
    """Return the places as the end of a line; empty if the finding is not about any one place."""
    named = listed(map(printable, where))
    return f", in {named}" if named else ""


def printable(text: str) -> str:
    """Return the text with visible escapes: nothing in a name may move a terminal's cursor."""
    return visible(text)


def indented(text: str, width: int) -> list[str]:
    """Wrap a sentence below the name of what it is about."""
    return _wrapped(text, width, indent="  ")


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Wrap text. Names of checks and layers stay whole if they fit; a command gets a line of its own."""
    lines: list[str] = []
    for number, part in enumerate(COMMAND.split(printable(text))):
        if number % 2:  # split() puts the commands at the odd places
            lines.append(f"{indent}  {part}")
        elif part.strip(" ."):
            lines += textwrap.wrap(
                part.lstrip(" ."),
                width,
                initial_indent=indent,
                subsequent_indent="  ",
                break_on_hyphens=False,
            )
    return lines
