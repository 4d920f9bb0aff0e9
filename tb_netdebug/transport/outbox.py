"""Outgoing messages of the trainer: any thread adds them, one thread sends them and sleeps in between."""

from __future__ import annotations

import os
import select
import threading
import weakref
from collections import deque
from contextlib import suppress

_READ_BYTES = 1 << 12


class WakeLost(RuntimeError):  # noqa: N818  # it says what happened
    """The program has closed our descriptors along with its own.

    Their numbers may belong to files of the program by now.
    """

    def __init__(self) -> None:
        super().__init__("the program has closed file descriptors that it does not own")


class Wake:
    """A pipe that wakes one sleeping thread, from any other thread and from signal handlers."""

    def __init__(self) -> None:
        self.descriptor, write_end = os.pipe()
        self._write_end = write_end
        for each in (self.descriptor, write_end):
            os.set_blocking(each, False)
        # Tells our pipe from a file that got the same number after the program closed all descriptors.
        self._ours = os.fstat(self.descriptor).st_ino
        self._closing = weakref.finalize(self, close_all, [self.descriptor, write_end])
        # At exit the last messages are still to be sent.
        self._closing.atexit = False

    def rouse(self) -> None:
        with suppress(OSError):  # the pipe is full: the thread will wake anyway
            if self._is_ours(self._write_end):
                os.write(self._write_end, b"\0")

    def drain(self) -> None:
        """Empty the pipe. Raise WakeLost."""
        if not self._is_ours(self.descriptor):
            self._closing.detach()
            raise WakeLost
        with suppress(BlockingIOError):
            os.read(self.descriptor, _READ_BYTES)

    def sleep(self, secs: float) -> None:
        """Sleep until roused, at most `secs`. Raise WakeLost."""
        waiting = select.poll()
        waiting.register(self.descriptor, select.POLLIN)
        waiting.poll(1000 * secs)
        self.drain()

    def _is_ours(self, descriptor: int) -> bool:
        try:
            return os.fstat(descriptor).st_ino == self._ours
        except OSError:
            return False

    def close(self) -> None:
        """Close the pipe for good; a forked child does that before anything else."""
        self._closing()


class Outbox:
    """A queue of outgoing messages, bounded in bytes.

    What it holds when a connection ends is dropped: the peer that waited for it is gone. The lock is
    re-entrant, because a signal handler may add a message, too.
    """

    def __init__(self, most_bytes: int) -> None:
        self.is_open = False
        self._most_bytes = most_bytes
        self._bytes = 0
        self._messages: deque[bytes] = deque()
        self._lock = threading.RLock()

    def open(self) -> None:
        with self._lock:
            self._messages.clear()
            self._bytes = 0
            self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def put(self, message: bytes) -> bool:
        """Add a message; return whether there was room for it."""
        with self._lock:
            if not self.is_open or self._bytes + len(message) > self._most_bytes:
                return False
            self._bytes += len(message)
            self._messages.append(message)
            return True

    def take(self) -> bytes:
        """Remove and return the oldest message; empty bytes without one."""
        with self._lock:
            if not self._messages:
                return b""
            message = self._messages.popleft()
            self._bytes -= len(message)
            return message


def close_all(descriptors: list[int]) -> None:
    for each in descriptors:
        with suppress(OSError):
            os.close(each)
