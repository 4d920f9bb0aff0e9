"""Keep errors of the monitoring away from the training."""

from __future__ import annotations

import os
import weakref

from tb_netdebug.core.eventlog.writer.located_warnings import UserLine
from tb_netdebug.recording.signal_handlers import is_from_a_handler

# One failing hook is a curiosity; after this many NetDebug is at fault and disables itself.
MOST_FAULTS = 20


class MonitorError(RuntimeError):
    """An error in the monitoring itself, raised with `strict=True`."""


class Guard:
    """Counts our own errors, warns of the first one at the user's line, and disables monitoring after many.

    With `strict` the error is raised at the end of the step instead. In a forked child (a data loader's
    worker) everything is off.
    """

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._line = UserLine.current()
        self._pid = os.getpid()
        self._said: set[str] = set()
        self.faults = 0
        self.is_off = False
        self._pending: Exception | None = None
        # Weak, because a fork handler cannot be unregistered and would keep the guard alive.
        forget = weakref.WeakMethod(self._forget)
        os.register_at_fork(after_in_child=lambda: (forget() or _nothing)())

    def fault(self, doing: str, error: Exception) -> None:
        """Count an error; raise it again if it is not ours but meant for the program."""
        if is_from_a_handler(error):
            raise error
        self.faults += 1
        self.is_off = self.faults >= MOST_FAULTS
        text = f"NetDebug failed while {doing}: {type(error).__name__}: {error}."
        if self._strict:
            self._pending = self._pending or MonitorError(text)
        elif self.faults == 1:
            self._line.warn(f"{text} The training goes on; this part is not recorded.")
        elif self.faults == MOST_FAULTS:
            self._line.warn(f"{text} After {self.faults} such failures, NetDebug stops reading tensors.")

    def say(self, sentence: str) -> None:
        """Warn the user with a sentence, once."""
        if sentence not in self._said:
            self._said.add(sentence)
            self._line.warn(sentence)

    def raise_pending(self) -> None:
        if self._pending is not None:
            error, self._pending = self._pending, None
            raise error

    def _forget(self) -> None:
        self.is_off = True
        self._strict = False


def _nothing() -> None:
    """Stand in for the handler of a guard that no longer exists."""
