"""Reads single keys from a terminal, for `netdebug watch`."""

from __future__ import annotations

import os
import select
import sys
import time
from types import TracebackType
from typing import Any, TextIO

try:
    import termios
    import tty
except ImportError:  # Windows has no termios
    termios = None  # type: ignore[assignment]  # mypy infers a module

# Terminals send arrows as CSI (ESC [) or as SS3 (ESC O) sequences, depending on their mode.
NAMES = {
    "\t": "next", "\x1b[B": "next", "\x1b[C": "next", "\x1bOB": "next", "\x1bOC": "next", "j": "next",
    "\x1b[Z": "previous", "\x1b[A": "previous", "\x1b[D": "previous", "\x1bOA": "previous",
    "\x1bOD": "previous", "k": "previous",
    "q": "quit", "Q": "quit", "\x04": "quit",
}  # fmt: skip
MOST_BYTES = 256


class Keyboard:
    """A context in which keys arrive one by one, without echo; without a terminal, none arrive.

    Ctrl-C works as usual. Ctrl-Z is disabled: it would leave the shell with our full-screen display.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        stream = sys.stdin if stream is None else stream
        self._fd = stream.fileno() if termios and stream is not None and stream.isatty() else None
        self._before: Any = None

    def __enter__(self) -> Keyboard:
        if self._fd is not None:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)
            modes = termios.tcgetattr(self._fd)
            # Disables Ctrl-Z.
            modes[6][termios.VSUSP] = os.fpathconf(self._fd, "PC_VDISABLE").to_bytes(1, "little")
            termios.tcsetattr(self._fd, termios.TCSANOW, modes)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd is not None and self._before is not None:
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)

    def wait(self, secs: float) -> list[str]:
        """Return the meaning of the keys pressed so far, or else of those pressed within `secs`."""
        if self._fd is None:
            time.sleep(secs)
            return []
        if not select.select([self._fd], [], [], secs)[0]:
            return []
        pressed = os.read(self._fd, MOST_BYTES)
        if not pressed:  # end of file: the terminal is gone
            return ["quit"]
        return [NAMES[key] for key in split(pressed.decode("ascii", "replace")) if key in NAMES]


def split(pressed: str) -> list[str]:
    """Split input into keys; an escape sequence is one key."""
    keys = []
    while pressed:
        size = 3 if pressed.startswith(("\x1b[", "\x1bO")) else 1
        keys.append(pressed[:size])
        pressed = pressed[size:]
    return keys
