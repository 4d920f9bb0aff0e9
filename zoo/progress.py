"""How far the zoo is: one line that changes in a terminal, a line for each tenth elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    def __init__(self, total: int, stream: TextIO = sys.stderr) -> None:
        self._total = total
        self._done = 0
        self._stream = stream
        self._began = time.monotonic()

    def advance(self) -> None:
        self._done += 1
        if self._stream.isatty():
            self._stream.write(f"\r{self._text()}")
        elif self._done * 10 // self._total > (self._done - 1) * 10 // self._total:
            self._stream.write(f"{self._text()}\n")
        self._stream.flush()

    def end(self) -> None:
        if self._stream.isatty():
            self._stream.write("\n")

    def _text(self) -> str:
        secs = time.monotonic() - self._began
        left = secs / max(self._done, 1) * (self._total - self._done)
        return f"{self._done} of {self._total} runs, {secs:.0f} s, about {left:.0f} s more   "
