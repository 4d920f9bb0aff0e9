"""What is new: the newest state of every run and of every session of the debugger, and for each listener what
changed since it last looked.

Nothing is queued. A change replaces the state before it, so a slow listener skips states but never falls
behind, and a listener costs one number.
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
LIST = None  # stands for the list of runs where others have the name of a run
# Sessions that have gone are told to those who come back; of so many.
MOST_SESSIONS = 2000


@dataclass(frozen=True, slots=True)
class SessionKey:
    """Names a debugger session, where a text is the name of a run."""

    text: str


Name = str | SessionKey | None


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """`row` is None for the list itself."""

    version: int
    name: Name
    row: Row | None


class Hub:
    """Safe from any thread. Versions rise with every change, and mean nothing under another epoch."""

    def __init__(self) -> None:
        self.epoch = f"{int(time.time()):x}{secrets.token_hex(4)}"
        self._news = threading.Condition()
        self._version = 0
        self._rows: dict[str, Row] = {}
        self._sessions: dict[str, Row] = {}  # the one that changed last comes last
        # By the version of the newest change, oldest first.
        self._changed: dict[Name, int] = {LIST: 0}
        self._closed = False
        self.heard = -math.inf  # when somebody last listened, on the monotonic clock

    @property
    def version(self) -> int:
        return self._version

    @property
    def closed(self) -> bool:
        return self._closed

    def rows(self) -> tuple[int, list[Row]]:
        """All runs as they are now, and the version of that."""
        with self._news:
            return self._version, list(self._rows.values())

    def row(self, name: str) -> Row | None:
        return self._rows.get(name)

    def set_list(self, rows: Mapping[str, Row]) -> None:
        """Other runs than before: these, with these states until `set_row` knows better."""
        with self._news:
            for name in self._rows.keys() - rows.keys():
                self._changed.pop(name, None)
            self._rows = dict(rows)
            self._mark(LIST)

    def tell_list(self) -> None:
        """Something else is new that comes with the list."""
        with self._news:
            self._mark(LIST)

    def set_row(self, name: str, row: Row) -> None:
        """The new state of a run; nothing when it is as before, or the run has gone."""
        with self._news:
            if name in self._rows and self._rows[name] != row:
                self._rows[name] = row
                self._mark(name)

    def set_session(self, key: str, row: Row | None) -> None:
        """The new state of a debugger session, None when it has gone; nothing when it is as before."""
        row = {"key": key, "is_gone": True} if row is None else row
        with self._news:
            if self._sessions.get(key) == row:
                return
            self._sessions.pop(key, None)
            self._sessions[key] = row
            if len(self._sessions) > MOST_SESSIONS:
                oldest = next((each for each, row in self._sessions.items() if "is_gone" in row), key)
                del self._sessions[oldest]
                self._changed.pop(SessionKey(oldest), None)
            self._mark(SessionKey(key))

    def since(self, version: int) -> list[RunUpdate]:
        """What changed after a version, oldest first, each run once."""
        with self._news:
            return self._since(version)

    def wait(self, version: int, *, timeout: float) -> list[RunUpdate]:
        """The same; when there is nothing, waits for it, at most `timeout` seconds or until the end."""
        self.heard = time.monotonic()
        with self._news:
            self._news.wait_for(lambda: self._closed or self._version > version, timeout)
            return self._since(version)

    def close(self) -> None:
        """Ends every `wait`, now and later."""
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
    """A limited number of places, each given back once."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = threading.BoundedSemaphore(count)

    def take(self) -> Seat | None:
        return Seat(self._free) if self._free.acquire(blocking=False) else None

    def clear(self, *, timeout: float) -> None:
        """Waits until all have been given back, at most so many seconds, and gives none out any more."""
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
    """The version in an id such as `<epoch>-<version>`; None when it is not of this epoch."""
    epoch, dash, version = identity.rpartition("-")
    if not dash or epoch != hub.epoch or not version.isdecimal() or len(version) > 18:
        return None
    return min(int(version), hub.version)
