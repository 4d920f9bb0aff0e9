"""The output of the debugger: the terminal, a pipe, or for one command a file."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from tb_netdebug.cli.debugging.words import CommandError
from tb_netdebug.cli.harmless import harmless
from tb_netdebug.cli.watch_screen import is_ascii
from tb_netdebug.core.records.visible import visible_lines

# Pipes and files have no width of their own.
PLAIN_WIDTH = 100
FILE_WIDTH = 200
Cell = str | Text


class DebuggerOutput:
    """Writes text, tables and status lines; every command of the debugger prints through it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = sys.stdout if stream is None else stream
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # names may have letters that the encoding lacks
        self._console = _console(stream, None if stream.isatty() else PLAIN_WIDTH)

    @property
    def width(self) -> int:
        return self._console.width

    @property
    def is_ascii(self) -> bool:
        return is_ascii(self._console)

    def say(self, text: str = "", *, style: str | None = None) -> None:
        """Print a line of our own words.

        Foreign text in it has to pass through `harmless` before, which also cuts it.
        """
        self._console.print(visible_lines(text), style=style, soft_wrap=True)

    def line(self, *pieces: str | tuple[str, str]) -> None:
        """Print a line of pieces, some of them with a style."""
        styled = [(each, "") if isinstance(each, str) else each for each in pieces]
        shown = Text.assemble(*((visible_lines(text), style) for text, style in styled))
        self._console.print(shown, soft_wrap=True)

    def rows(
        self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()
    ) -> None:
        """Print a table; columns in `right` are right-aligned. Every cell is made harmless here."""
        table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0), pad_edge=False)
        for name in columns:
            table.add_column(name, justify="right" if name in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(cell if isinstance(cell, Text) else harmless(str(cell)) for cell in row))
        self._console.print(table)

    def status(self, text: str) -> Status:
        """Return a status line that is updated in place; in a pipe it shows nothing."""
        return self._console.status(text, spinner="line" if self.is_ascii else "dots")

    @contextmanager
    def onto(self, path: str | None) -> Iterator[None]:
        """Redirect all output of the block into a file, if one is named. Raise CommandError."""
        if path is None:
            yield
            return
        terminal = self._console
        try:
            with Path(path).expanduser().open("w", encoding="utf-8") as file:
                self._console = _console(file, FILE_WIDTH)
                try:
                    yield
                finally:
                    self._console = terminal
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}.") from None


def _console(stream: TextIO, width: int | None) -> Console:
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)
