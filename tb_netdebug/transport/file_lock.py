"""Exclusive lock files of this user; the system releases a lock when the process that holds it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def taken(path: Path, *, create: bool = True) -> int | None:
    """Return a descriptor that holds the lock on `path`, or None when another process holds it.

    The lock lasts until the descriptor is closed, here and in forked children. Raise OSError.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if create else 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
