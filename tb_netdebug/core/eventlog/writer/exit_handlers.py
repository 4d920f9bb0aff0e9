"""The end of a training process, by exit or by SIGTERM: the writers that are still open are closed."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import weakref
from types import FrameType
from typing import Protocol

# Enough to write the queue to a working disk, little enough for a cluster that kills soon after SIGTERM.
_SIGTERM_SECS = 5.0


class Closable(Protocol):
    def flush(self, *, timeout_secs: float) -> bool: ...

    def close(self) -> None: ...


_open: weakref.WeakSet[Closable] = weakref.WeakSet()
_is_hooked = False


def watch(writer: Closable) -> None:
    """Register a writer to be closed when the program ends; the first one installs the hooks."""
    global _is_hooked
    _open.add(writer)
    if not _is_hooked:
        _is_hooked = True
        atexit.register(_close_all)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_forget_parent)
    # Python sets signal handlers only on the main thread; a writer made there later makes up for it.
    if threading.current_thread() is threading.main_thread():
        _take_sigterm()


def forget(writer: Closable) -> None:
    _open.discard(writer)


def _close_all() -> None:
    # A copy, because a writer that closes is removed from the set.
    for writer in list(_open):
        writer.close()


def _forget_parent() -> None:
    """Undo the hooks in a forked child, which has nothing to save."""
    _open.clear()
    # The workers of a data loader are expected to die of SIGTERM at once.
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _OnSigterm):
        signal.signal(signal.SIGTERM, handler.previous)


def _take_sigterm() -> None:
    previous = signal.getsignal(signal.SIGTERM)
    # An ignored signal stays ignored, and a handler set from C (None) cannot be called by ours.
    if previous in (signal.SIG_IGN, None) or isinstance(previous, _OnSigterm):
        return
    signal.signal(signal.SIGTERM, _OnSigterm(previous))


class _OnSigterm:
    """A SIGTERM handler that saves the records, then does what the process would have done without it."""

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
        # Die of the signal itself, so that the parent sees the exit status of a killed process.
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
