"""What goes wrong, told to a person: at once, and not again and again."""

from __future__ import annotations

import time
from collections.abc import Callable

# A full disk is told of by every trainer with every try.
ANY_SECS, SAME_SECS = 10.0, 600.0


class Notices:
    """Passes on a sentence, unless there was any within ten seconds, or the same within ten minutes."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._last = ""
        self._told = float("-inf")
        self._untold = 0

    def add(self, sentence: str) -> None:
        now = self._clock()
        if now - self._told < (SAME_SECS if sentence == self._last else ANY_SECS):
            self._untold += 1
            return
        more = f" ({self._untold} more before.)" if self._untold else ""
        self._last, self._told, self._untold = sentence, now, 0
        self._tell(f"{sentence}{more}")
