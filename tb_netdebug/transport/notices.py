"""Rate-limited reports of failures to a person: the first at once, repetitions rarely."""

from __future__ import annotations

import time
from collections.abc import Callable

# A full disk would otherwise be reported by every trainer at every retry.
ANY_SECS, SAME_SECS = 10.0, 600.0
# So many sentences are remembered.
MOST_REMEMBERED = 64


class Notices:
    """A rate limiter for sentences that are shown to a person.

    It drops a sentence when the last one was passed on less than ten seconds ago, or the same one less than
    ten minutes ago, whatever came in between. The next one that passes says how many were dropped.
    """

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._tell = tell
        self._clock = clock
        self._told: dict[str, float] = {}  # when each sentence was passed on; the newest is the last
        self._untold = 0

    def add(self, sentence: str) -> None:
        now = self._clock()
        newest = next(reversed(self._told.values()), float("-inf"))
        if now - newest < ANY_SECS or now - self._told.get(sentence, float("-inf")) < SAME_SECS:
            self._untold += 1
            return
        self._told.pop(sentence, None)
        self._told[sentence] = now
        if len(self._told) > MOST_REMEMBERED:
            del self._told[next(iter(self._told))]
        more = f" ({self._untold} more before.)" if self._untold else ""
        self._untold = 0
        self._tell(f"{sentence}{more}")
