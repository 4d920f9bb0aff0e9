"""The calls that have come over the channel and wait for the training thread."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

MOST_CALLS = 1000

Head = Mapping[str, Any]


class Inbox:
    """Calls in their order. Any thread may put one in; the thread that visits takes them out."""

    def __init__(self) -> None:
        self._calls: deque[Head] = deque()
        self._news = threading.Condition()

    def __len__(self) -> int:
        return len(self._calls)

    def put(self, call: Head) -> bool:
        """Add a call; return whether there was room."""
        if len(self._calls) >= MOST_CALLS:
            return False
        self._calls.append(call)
        return True

    def take(self) -> Head:
        """Remove the oldest call and return it; there has to be one."""
        return self._calls.popleft()

    def rouse(self) -> None:
        """Wake who waits."""
        with self._news:
            self._news.notify_all()

    def wait(self, secs: float) -> None:
        """Wait for a call or for `rouse`."""
        with self._news:
            if not self._calls:
                self._news.wait(secs)
