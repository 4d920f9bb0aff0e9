"""Questions to a training, on their way and answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

# What a client is told went wrong.
UNKNOWN, HELD, REFUSED, BUSY, LATE, GONE = "unknown", "held", "refused", "busy", "late", "gone"


class CallError(Exception):
    """A sentence for who has asked; `kind` is one of the above."""

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


class Call:
    """One question to one training. `ended` is called with it when it has an answer, on any thread."""

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
        """Whether there is an answer."""
        return self._done.wait(secs)

    def result(self) -> Any:
        """Of one that is done. Raises CallError."""
        if self.error is not None:
            raise self.error
        return self.value

    def _end(self) -> None:
        self._done.set()
        if self._ended is not None:
            self._ended(self)
