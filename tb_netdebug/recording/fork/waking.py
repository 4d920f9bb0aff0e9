"""Detect whether a forked copy of this process gets to run at all.

The copy has one thread. A lock that another thread held at the fork, such as malloc's, stays locked in it for
ever. So a copy that sleeps before its first sign of life waits for such a lock; a slow one does not sleep.
"""

from __future__ import annotations

import os
import select
from pathlib import Path

from tb_netdebug.recording.clock import now

LOOK_SECS = 0.005
# This often in a row, because the kernel, too, puts a process to sleep for a moment.
MOST_ASLEEP = 3


def awakes(pid: int, reader: int, *, until: float) -> bool:
    """Wait for the copy's first byte or its end; return False if it will never come."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    asleep = 0
    while not poll.poll(LOOK_SECS * 1000):
        asleep = asleep + 1 if is_asleep(pid) else 0
        if asleep >= MOST_ASLEEP or now() >= until:
            return False
    os.read(reader, 1)  # the sign of life; the answer follows it
    return True


def is_asleep(pid: int) -> bool:
    """Return whether a process sleeps; False where the system does not tell."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat.rpartition(b")")[2].split()[:1] == [b"S"]
