"""How far the zoo is: one line that changes in a terminal, a line for each tenth elsewhere."""

from __future__ import annotations

import time

from tb_netdebug.cli.progress import ProgressLine


class Progress:
    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._line = ProgressLine()
        self._began = time.monotonic()

    def advance(self) -> None:
        self._done += 1
        self._line.show(self._text())
        is_tenth = self._done * 10 // self._total > (self._done - 1) * 10 // self._total
        if is_tenth and not self._line.is_terminal:
            self._line.say(self._text())

    def end(self) -> None:
        if self._line.is_terminal:
            self._line.say(self._text())

    def _text(self) -> str:
        secs = time.monotonic() - self._began
        left = secs / max(self._done, 1) * (self._total - self._done)
        return f"{self._done} of {self._total} runs, {secs:.0f} s, about {left:.0f} s more"
