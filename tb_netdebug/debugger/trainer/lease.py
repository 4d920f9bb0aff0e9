"""The lease: how long a run stays paused while no client attends."""

from __future__ import annotations

import time
from collections.abc import Callable

LEASE_SECS = 15.0
# If the program itself asked for a pause, the first client has this long to come: nobody may be at the desk.
FIRST_VISIT_SECS = 600.0
# Other ranks wait in a collective meanwhile and fail after its timeout, so the run resumes well before.
SHARE_OF_TIMEOUT = 0.8


class Lease:
    """The lease that clients renew; `renew` may be called from any thread."""

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
        """Whether a client has attended since the last pause that the program asked for."""
        return self._was_attended

    def await_first(self) -> None:
        """Begin a pause of the program's own, which waits for any client."""
        self._was_attended = self.holds
