"""What the person in front of the terminal sees meanwhile."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from tb_netdebug.cli.progress import ProgressLine


class Progress(ProgressLine):
    """Each text comes behind the time; away from a terminal, only the begin and the end of each part."""

    def __init__(self, *, is_terminal: bool | None = None) -> None:
        super().__init__(is_terminal=is_terminal)
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        super().say(f"{self.elapsed()}  {text}")

    def show(self, text: str) -> None:
        super().show(f"{self.elapsed()}  {text}")

    def elapsed(self) -> str:
        """Since the beginning, such as " 3:07"."""
        minutes, secs = divmod(int(time.monotonic() - self._began), 60)
        return f"{minutes:2d}:{secs:02d}"


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
