"""How long a training stays paused without anybody who attends it."""

from __future__ import annotations

import time
from collections.abc import Callable

LEASE_SECS = 15.0
# Who asked in the program for a pause is waited for so long; nobody may be at the desk.
FIRST_VISIT_SECS = 600.0
# Others wait in a collective meanwhile, and give up after their time-out: on we go well before.
SHARE_OF_TIMEOUT = 0.8


class Lease:
    """`renew` may be called from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.secs = LEASE_SECS
        self._clock = clock
        self._until = -1.0
        self._was_attended = False

    @property
    def holds(self) -> bool:
        return self._clock() < self._until

    def renew(self, secs: float) -> None:
        self.secs = secs
        self._was_attended = True
        self._until = self._clock() + secs

    def end(self) -> None:
        self._until = -1.0

    @property
    def was_attended(self) -> bool:
        """Since the last pause that the program asked for by itself."""
        return self._was_attended

    def await_first(self) -> None:
        """The program pauses for whoever comes."""
        self._was_attended = self.holds
