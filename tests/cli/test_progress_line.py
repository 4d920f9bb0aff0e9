"""The line that says how far a long task is: one row of any terminal, and nothing of it in a file."""

from __future__ import annotations

import sys

import pytest

from tb_netdebug.cli.progress import ProgressLine
from tests.support.terminal import Terminal

SHOWING = """
from tb_netdebug.cli.progress import ProgressLine
line = ProgressLine()
line.show("x" * 100)
line.say("kept")
line.show("\\x1b[31mred")
line.clear()
"""


def test_the_line_fits_into_the_terminal() -> None:
    """Erasing reaches one row only, and no name gets a command to the terminal."""
    with Terminal([sys.executable, "-c", SHOWING], {}, width=20) as terminal:
        assert 0 == terminal.end()
    erase = b"\r\x1b[2K"
    shown = ["xxxxxx…xxxxxxxxxxxx".encode(), b"", b"\\x1b[31mred", b""]
    assert [*shown[:1], b"kept\r\n", *shown[2:]] == terminal.output.removeprefix(erase).split(erase)


def test_elsewhere_only_what_stays_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """A file has no use for lines that change."""
    line = ProgressLine()
    line.show("halfway")
    line.say("done")
    line.clear()
    assert "done\n" == capsys.readouterr().err
