"""Rate-limited reports of failures to a person: the first at once, repetitions rarely."""

from __future__ import annotations

import time
from collections.abc import Callable

# A full disk would otherwise be reported by every trainer at every retry.
ANY_SECS, SAME_SECS = 10.0, 600.0


class Notices:
    """A rate limiter for sentences that are shown to a person.

    It drops a sentence when the last one was passed on less than ten seconds ago, or was the same and passed
    on less than ten minutes ago. The next one that passes says how many were dropped.
    """

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
