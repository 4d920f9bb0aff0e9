"""A file of our own that one process at a time has; the system lets go of it when that process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


def taken(path: Path, *, create: bool = True) -> int | None:
    """The descriptor that holds the lock until it is closed, here and in forked children; None when somebody
    else has it. Raises OSError."""
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
