"""The ways a training process ends: each one closes the writers that are still open."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from types import FrameType
from typing import Protocol

# Long enough for what waits in memory on a working disk, short enough for a cluster that kills after SIGTERM.
_SIGTERM_SECS = 5.0


class Closable(Protocol):
    def flush(self, *, timeout_secs: float) -> bool: ...

    def close(self) -> None: ...


_open: weakref.WeakSet[Closable] = weakref.WeakSet()
_hooked_pid: int | None = None


def watch(writer: Closable) -> None:
    """Close `writer` when the program ends, by SIGTERM too; both hooks are set when the first one comes."""
    global _hooked_pid
    _open.add(writer)
    if _hooked_pid is None:
        atexit.register(_close_all)
        _hooked_pid = os.getpid()
    if threading.current_thread() is threading.main_thread():
        _take_sigterm()


def forget(writer: Closable) -> None:
    _open.discard(writer)


def _close_all() -> None:
    for writer in list(_open):
        writer.close()


def _take_sigterm() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    # An ignored signal stays ignored, and a handler that was set from C could not be called by ours.
    if previous in (signal.SIG_IGN, None) or isinstance(previous, _OnSigterm):
        return
    signal.signal(signal.SIGTERM, _OnSigterm(previous))


class _OnSigterm:
    """Saves the records, then does what the process would have done without us."""

    def __init__(self, previous: signal._HANDLER) -> None:
        self._previous = previous

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if callable(self._previous):
            # The user's handler may let the training go on, so nothing is closed yet.
            for writer in list(_open):
                writer.flush(timeout_secs=_SIGTERM_SECS)
            self._previous(signum, frame)
            return
        _close_all()
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
