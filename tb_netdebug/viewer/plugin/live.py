"""The newest state of every run and debugger session, and for each client what changed since it last asked.

Nothing is queued. A new state replaces the old one, so a slow client skips states but never falls behind, and
a client costs one number: the version that it has seen.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile

Row = Mapping[str, object]
LIST = None  # the list of runs itself, where other updates have a run's name
# How many sessions are kept: clients that reconnect are told which ones have ended.
MOST_SESSIONS = 2000


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The key of a debugger session, to tell it from the name of a run."""

    text: str


Name = str | SessionKey | None


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """A changed run or session; `row` is None for the list of runs itself."""

    version: int
    name: Name
    row: Row | None


class Hub:
    """Holds the newest states and wakes the streams. Safe from any thread.

    Versions rise with every change, and are meaningless under another epoch, that is another start of
    TensorBoard.
    """

    def __init__(self) -> None:
        self.epoch = f"{int(time.time()):x}{secrets.token_hex(4)}"
        self._news = threading.Condition()
        self._version = 0
        self._rows: dict[str, Row] = {}
        self._sessions: dict[str, Row] = {}  # sorted by their last change
        # The version of the newest change of each, oldest first.
        self._changed: dict[Name, int] = {LIST: 0}
        self._closed = False
        self.heard = -math.inf  # when a client last waited, on the monotonic clock

    @property
    def version(self) -> int:
        return self._version

    @property
    def closed(self) -> bool:
        return self._closed

    def rows(self) -> tuple[int, list[Row]]:
        """Return all runs as they are now, and the version of that."""
        with self._news:
            return self._version, list(self._rows.values())

    def row(self, name: str) -> Row | None:
        return self._rows.get(name)

    def set_list(self, rows: Mapping[str, Row]) -> None:
        """Replace the list of runs, with these states until `set_row` has newer ones."""
        with self._news:
            for name in self._rows.keys() - rows.keys():
                self._changed.pop(name, None)
            self._rows = dict(rows)
            self._mark(LIST)

    def tell_list(self) -> None:
        """Send the list anew, because something else that comes with it has changed."""
        with self._news:
            self._mark(LIST)

    def set_row(self, name: str, row: Row) -> None:
        """Set the state of a run; do nothing if it is unchanged or the run is gone."""
        with self._news:
            if name in self._rows and self._rows[name] != row:
                self._rows[name] = row
                self._mark(name)

    def set_session(self, key: str, row: Row | None) -> None:
        """Set the state of a debugger session, None once it has ended; do nothing if it is unchanged."""
        row = {"key": key, "is_gone": True} if row is None else row
        with self._news:
            if self._sessions.get(key) == row:
                return
            self._sessions.pop(key, None)
            self._sessions[key] = row
            if len(self._sessions) > MOST_SESSIONS:
                # The one that was just set comes last, and is not the one that goes.
                ended = (each for each, row in self._sessions.items() if "is_gone" in row and each != key)
                oldest = next(ended, next(iter(self._sessions)))
                del self._sessions[oldest]
                self._changed.pop(SessionKey(oldest), None)
            self._mark(SessionKey(key))

    def since(self, version: int) -> list[RunUpdate]:
        """Return what changed after a version, oldest first, each run once."""
        with self._news:
            return self._since(version)

    def wait(self, version: int, *, timeout: float) -> list[RunUpdate]:
        """Return what changed after a version, waiting for it at most `timeout` seconds or until `close`."""
        self.heard = time.monotonic()
        with self._news:
            self._news.wait_for(lambda: self._closed or self._version > version, timeout)
            return self._since(version)

    def close(self) -> None:
        """End every `wait`, now and later."""
        with self._news:
            self._closed = True
            self._news.notify_all()

    def _mark(self, name: Name) -> None:
        self._version += 1
        self._changed.pop(name, None)
        self._changed[name] = self._version
        self._news.notify_all()

    def _since(self, version: int) -> list[RunUpdate]:
        newest_first = takewhile(lambda entry: entry[1] > version, reversed(self._changed.items()))
        found = [RunUpdate(at, name, self._row_of(name)) for name, at in newest_first]
        return found[::-1]

    def _row_of(self, name: Name) -> Row | None:
        if isinstance(name, SessionKey):
            return self._sessions[name.text]
        return None if name is None else self._rows[name]


class Seats:
    """A limited number of places, such as for streams; each can be given back once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = threading.BoundedSemaphore(count)

    def take(self) -> Seat | None:
        return Seat(self._free) if self._free.acquire(blocking=False) else None

    def clear(self, *, timeout: float) -> None:
        """Wait until all seats have been given back, at most `timeout` seconds, and hand out no more."""
        until = time.monotonic() + timeout
        for _ in range(self._count):
            if not self._free.acquire(timeout=max(0.0, until - time.monotonic())):
                return


class Seat:
    def __init__(self, free: threading.BoundedSemaphore) -> None:
        self._free = free
        self._lock = threading.Lock()
        self._taken = True

    def give_back(self) -> None:
        with self._lock:
            taken, self._taken = self._taken, False
        if taken:
            self._free.release()


def resume_point(identity: str, hub: Hub) -> int | None:
    """Return the version in an id `<epoch>-<version>`, or None if it is not of this epoch."""
    epoch, dash, version = identity.rpartition("-")
    if not dash or epoch != hub.epoch or not version.isdecimal() or len(version) > 18:
        return None
    return min(int(version), hub.version)
