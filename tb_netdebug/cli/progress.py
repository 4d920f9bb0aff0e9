"""The line on a terminal that says how far a long task is."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

from tb_netdebug.cli.harmless import fitted

_ROWS_PER_MESSAGE = 5000
_ERASE = "\r\x1b[2K"

Row = TypeVar("Row")


class ProgressLine:
    """A line on standard error that each text replaces. Where that is no terminal, only `say` writes."""

    def __init__(self, *, is_terminal: bool | None = None) -> None:
        self.is_terminal = sys.stderr.isatty() if is_terminal is None else is_terminal

    def show(self, text: str) -> None:
        """Replace the line, cut to the width of the terminal: of a wrapped line, a part would stay."""
        if self.is_terminal:
            self._write(f"{_ERASE}{fitted(text, shutil.get_terminal_size().columns - 1)}")

    def clear(self) -> None:
        """Leave nothing of it."""
        if self.is_terminal:
            self._write(_ERASE)

    def say(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        self._write(f"{text}\n")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def counted(rows: Iterable[Row], label: str) -> Iterator[Row]:
    """Yield the same rows; if standard error is a terminal, show how many there were so far."""
    line = ProgressLine()
    for number, row in enumerate(rows, start=1):
        if number % _ROWS_PER_MESSAGE == 0:
            line.show(f"{label}: {number} rows")
        yield row
    line.clear()
