"""When to look at which run again: often at those that grow, seldom at those that were quiet for long."""

from __future__ import annotations

import heapq
import math

SHORTEST_SECS = 0.1
LONGEST_SECS = 5.0
# A run that was quiet for a minute is looked at every 0.6 seconds.
SHARE_OF_QUIET = 0.01
# Never spend more than a tenth of the time on one run: on a network disk a look is slow.
REST_PER_WORK = 9.0


class Schedule:
    """Knows no clock: times come from outside, in seconds, and never go back."""

    def __init__(self) -> None:
        self._changed: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def __contains__(self, name: str) -> bool:
        return name in self._due

    def add(self, name: str, *, changed: float, now: float) -> None:
        """Looks at this run from now on; `changed` is when it last did."""
        self._changed[name] = changed
        self._plan(name, now)

    def remove(self, name: str) -> None:
        self._changed.pop(name, None)
        self._due.pop(name, None)

    def looked(self, name: str, *, changed: bool, took: float, now: float) -> None:
        """After a look: whether it found something new, and how long it took."""
        if name not in self._due:
            return
        if changed:
            self._changed[name] = now
        quiet = now - self._changed[name]
        pause = min(max(SHARE_OF_QUIET * quiet, SHORTEST_SECS), LONGEST_SECS)
        self._plan(name, now + max(pause, REST_PER_WORK * took))

    def due(self, now: float) -> list[str]:
        """Which runs to look at, the longest overdue first."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._due.get(name) == at:  # else it was planned anew, or has gone
                self._due[name] = math.inf  # until it was looked at
                found.append(name)
        return found

    def next_due(self) -> float | None:
        """When the next look is due."""
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def hurry(self, now: float) -> None:
        """Everything is due now."""
        for name in self._due:
            self._plan(name, now)

    def _plan(self, name: str, at: float) -> None:
        self._due[name] = at
        heapq.heappush(self._heap, (at, name))
