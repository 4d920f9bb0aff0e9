"""A program in a terminal of its own: what it shows, keys for it, and how it leaves the terminal behind."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# What would tell a program of another terminal than the one it has.
TELLING = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")
LIMIT_SECS = 60.0
# Every drawing of a whole screen starts at the upper left corner.
CORNER = b"\x1b[H"
# And ends with the line of keys.
LAST_LINE = b"q: quit"
# Colours, and the modes that full-screen programs switch.
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ALTERNATE_ON, ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
CURSOR_OFF, CURSOR_ON = b"\x1b[?25l", b"\x1b[?25h"


def environment(**more: str) -> dict[str, str]:
    """That of a child: in an isolated run the installed wheel is tested, else this checkout."""
    path = "" if sys.flags.isolated else str(ROOT)
    known = {name: value for name, value in os.environ.items() if name not in TELLING}
    return {**known, "PYTHONPATH": path, "TERM": "xterm-256color", **more}


class Terminal:
    """Use it as a context manager; every wait fails the test after a minute, and shows the screen."""

    def __init__(
        self, command: Sequence[str | Path], env: Mapping[str, str], *, width: int = 80, height: int = 24
    ) -> None:
        self._ours, self._its = os.openpty()
        self.resize(width, height)
        self.modes_before = self.modes()
        self.output = b""
        self.process = subprocess.Popen(
            list(map(str, command)),
            stdin=self._its,
            stdout=self._its,
            stderr=self._its,
            env=environment(**env),
            cwd=sys.prefix,  # not the checkout: `python -m` would prefer it to the installed wheel
            start_new_session=True,
            preexec_fn=self._take_over,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._its)

    @property
    def screen(self) -> str:
        """The last whole drawing, without colours."""
        whole = [drawing for drawing in self.output.split(CORNER) if LAST_LINE in drawing]
        return SEQUENCE.sub("", whole[-1].decode(errors="replace")).replace("\r", "") if whole else ""

    def wait_for(self, *texts: str, without: str | None = None) -> str:
        """The first screen that shows all of the texts."""

        def is_shown() -> bool:
            screen = self.screen
            return all(text in screen for text in texts) and not (without and without in screen)

        return self.wait_until(is_shown, f"{texts} on the screen")

    def wait_for_output(self, *patterns: str) -> str:
        """For programs that do not take the whole screen: all they wrote, once it has all of the patterns."""
        return self.wait_until(
            lambda: all(re.search(pattern, self.written) for pattern in patterns), f"{patterns} in the output"
        )

    @property
    def written(self) -> str:
        """All output until now, without colours."""
        return SEQUENCE.sub("", self.output.decode(errors="replace")).replace("\r", "")

    def wait_until(self, condition: Callable[[], bool], what: str) -> str:
        deadline = time.monotonic() + LIMIT_SECS
        while not condition():
            if not self._read() and self.process.poll() is not None:
                assert condition(), (
                    f"The program ended without {what}:\n{self.output.decode('utf-8', 'replace')}"
                )
            assert time.monotonic() < deadline, f"There was no {what}, but:\n{self.screen or self.written}"
        return self.screen or self.written

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self._its, termios.TIOCSWINSZ, struct.pack("4H", height, width, 0, 0))

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Waits until the program has ended, and takes all that it has written; its exit code."""
        self.wait_until(lambda: self.process.poll() is not None, "end")
        while self._read(0.0):
            pass
        return self.process.returncode

    def modes(self) -> list[Any]:
        """How the terminal is set: echo, lines, signals."""
        return termios.tcgetattr(self._its)

    def _read(self, secs: float = 0.05) -> bool:
        """Takes what has been written; whether there was anything."""
        if not select.select([self._ours], [], [], secs)[0]:
            return False
        self.output += os.read(self._ours, 65536)
        return True

    def _take_over(self) -> None:
        """In the child: this is the terminal whose Ctrl-C it gets."""
        fcntl.ioctl(self._its, termios.TIOCSCTTY, 0)
