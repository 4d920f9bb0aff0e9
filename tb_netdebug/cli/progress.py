"""A progress line on the terminal for long tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tb_netdebug.core.records.visible import visible

_ROWS_PER_MESSAGE = 5000

Row = TypeVar("Row")


def counted(rows: Iterable[Row], label: str) -> Iterator[Row]:
    """Yield the same rows; if standard error is a terminal, show how many there were so far."""
    if not sys.stderr.isatty():
        yield from rows
        return
    shown = ""
    for number, row in enumerate(rows, start=1):
        if number % _ROWS_PER_MESSAGE == 0:
            shown = f"{visible(label)}: {number} rows"
            print(f"\r{shown}", end="", file=sys.stderr, flush=True)
        yield row
    print("\r" + " " * len(shown) + "\r", end="", file=sys.stderr, flush=True)
