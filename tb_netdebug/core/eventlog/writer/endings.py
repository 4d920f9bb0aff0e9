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
_is_hooked = False


def watch(writer: Closable) -> None:
    """Close `writer` when the program ends, by SIGTERM too. The hooks are set when the first one comes."""
    global _is_hooked
    _open.add(writer)
    if not _is_hooked:
        _is_hooked = True
        atexit.register(_close_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget_parent)
    if threading.current_thread() is threading.main_thread():
        _take_sigterm()


def forget(writer: Closable) -> None:
    _open.discard(writer)


def _close_all() -> None:
    for writer in list(_open):
        writer.close()


def _forget_parent() -> None:
    """A forked child has nothing to save; workers of data loaders are expected to die of SIGTERM at once."""
    _open.clear()
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _OnSigterm):
        signal.signal(signal.SIGTERM, handler.previous)


def _take_sigterm() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    # An ignored signal stays ignored, and a handler that was set from C could not be called by ours.
    if previous in (signal.SIG_IGN, None) or isinstance(previous, _OnSigterm):
        return
    signal.signal(signal.SIGTERM, _OnSigterm(previous))


class _OnSigterm:
    """Saves the records, then does what the process would have done without us."""

    def __init__(self, previous: signal._HANDLER) -> None:
        self.previous = previous

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        if callable(self.previous):
            # The user's handler may let the training go on, so nothing is closed yet.
            for writer in list(_open):
                writer.flush(timeout_secs=_SIGTERM_SECS)
            self.previous(signum, frame)
            return
        _close_all()
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
