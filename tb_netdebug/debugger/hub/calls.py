"""Calls to a session: pending until the answer arrives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

# The kinds of errors that a client can get.
UNKNOWN, HELD, REFUSED, BUSY, LATE, GONE = "unknown", "held", "refused", "busy", "late", "gone"


class CallError(Exception):
    """A call failed. The text is a sentence for the caller; `kind` is one of the above."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Call:
    """One call to one session. `ended` is called with it once it has an answer, on any thread."""

    def __init__(self, number: int, verb: str, ended: Callable[[Call], None] | None = None) -> None:
        self.number = number
        self.verb = verb
        self.value: Any = None
        self.attachment = b""
        self.error: CallError | None = None
        self._ended = ended
        self._done = threading.Event()

    def succeed(self, value: Any, attachment: bytes = b"") -> None:
        self.value, self.attachment = value, attachment
        self._end()

    def fail(self, kind: str, sentence: str) -> None:
        self.error = CallError(kind, sentence)
        self._end()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, secs: float) -> bool:
        """Wait for the answer; return whether there is one."""
        return self._done.wait(secs)

    def result(self) -> Any:
        """Return the value of a call that is done; raise CallError if it failed."""
        if self.error is not None:
            raise self.error
        return self.value

    def _end(self) -> None:
        self._done.set()
        if self._ended is not None:
            self._ended(self)
