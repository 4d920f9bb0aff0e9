"""What the person in front of the terminal sees meanwhile."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Progress:
    """One line that renews itself on a terminal; elsewhere only the begin and the end of each part."""

    is_terminal: bool = field(default_factory=lambda: sys.stderr.isatty())
    began: float = field(default_factory=time.monotonic)
    _width: int = 0

    def say(self, text: str) -> None:
        """A line that stays."""
        self._clear()
        self._write(f"{self.elapsed()}  {text}\n")

    def show(self, text: str) -> None:
        """A line that the next one replaces."""
        if self.is_terminal:
            self._clear()
            line = f"{self.elapsed()}  {text}"
            self._width = len(line)
            self._write(line)

    def clear(self) -> None:
        self._clear()

    def elapsed(self) -> str:
        """Since the beginning, such as " 3:07"."""
        minutes, secs = divmod(int(time.monotonic() - self.began), 60)
        return f"{minutes:2d}:{secs:02d}"

    def _clear(self) -> None:
        if self.is_terminal and self._width:
            self._write("\r" + " " * self._width + "\r")
        self._width = 0

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class Session:
    """What each benchmark is given: where it may write, how thorough it is to be, whom to tell."""

    folder: Path
    progress: Progress
    is_quick: bool = False
    rounds: int | None = None

    def choose(self, *, full: int, quick: int) -> int:
        """How many rounds: those asked for, or the usual number."""
        return self.rounds or (quick if self.is_quick else full)
