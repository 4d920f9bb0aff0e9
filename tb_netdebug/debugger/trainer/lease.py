"""The lease: how long a run stays paused while no client attends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

LEASE_SECS = 15.0
LONGEST_LEASE_SECS = 120.0
# If the program itself asked for a pause, the first client has this long to come: nobody may be at the desk.
FIRST_VISIT_SECS = 600.0
# Other ranks wait in a collective meanwhile and fail after its timeout, so the run resumes well before.
SHARE_OF_TIMEOUT = 0.8


class Lease:
    """The lease that clients renew; `take` and `renew` may be called from any thread.

    `is_refused` after a client has detached: leases that are still on their way do not attach it again. The
    next call, or the end of the lease, does away with that.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.secs = LEASE_SECS
        self.is_refused = False
        self._clock = clock
        self._until = -1.0
        self._was_attended = False

    @property
    def holds(self) -> bool:
        return self._clock() < self._until

    @property
    def is_attended(self) -> bool:
        return self.holds and not self.is_refused

    def take(self, head: Mapping[str, Any]) -> None:
        """Renew or end the lease, as a message of the hub says."""
        secs = head.get("secs")
        if not head.get("clients") or isinstance(secs, bool) or not isinstance(secs, int | float):
            self.is_refused = False
            self.end()
        elif not self.is_refused:
            self.renew(float(min(max(secs, 1.0), LONGEST_LEASE_SECS)))

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
