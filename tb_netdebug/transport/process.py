"""What the system shows of another process: how it is doing, and how it ended."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

# PIDFD_GET_INFO, an ioctl on a pidfd. From Linux 6.15 it reports the exit status of a process even after its
# parent has reaped it.
_GET_INFO = (3 << 30) | (64 << 16) | (0xFF << 8) | 11
_EXIT_IS_KNOWN = 1 << 3
_INFO = struct.Struct("<Q52xi")  # struct pidfd_info: the mask, and the exit status at offset 60
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SEC = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """The state of a process at one moment.

    `ticks` is its processor time, `started` its start in ticks since boot, and `exit_status` is encoded as
    `wait` does.
    """

    state: str
    ticks: int
    threads: int
    started: int
    resident_bytes: int
    exit_status: int


def stat_of(pid: int) -> Stat | None:
    """Return the state of a process; None when there is no such process."""
    if not sys.platform.startswith("linux"):
        return _asked(pid)
    try:
        data = Path(f"/proc/{pid}/stat").read_bytes()
        fields = data[data.rindex(b")") + 2 :].split()  # the name in front may hold any bytes
        # Indices count from the state, which is field 3 in proc(5).
        state, utime, stime, threads = fields[0], fields[11], fields[12], fields[17]
        return Stat(
            state=state.decode("ascii", "replace"),
            ticks=int(utime) + int(stime),
            threads=int(threads),
            started=int(fields[19]),
            resident_bytes=int(fields[21]) * _PAGE_BYTES,
            exit_status=int(fields[49]),
        )
    except (OSError, ValueError, IndexError):
        return None


def _asked(pid: int) -> Stat | None:
    """Return the same from psutil, where there is no /proc; its exit status is unknown there, and 0."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            times = process.cpu_times()
            return Stat(
                state={"zombie": "Z", "running": "R", "disk-sleep": "D"}.get(process.status(), "S"),
                ticks=int((times.user + times.system) * TICKS_PER_SEC),
                threads=process.num_threads(),
                started=int(process.create_time() * TICKS_PER_SEC),
                resident_bytes=process.memory_info().rss,
                exit_status=0,
            )
    except psutil.Error:
        return None


def is_alive(pid: int, started: int) -> bool:
    """Return whether this very process still runs; `started` is 0 where it is not known."""
    stat = stat_of(pid)
    # Z is a zombie, X a process that is being removed.
    return stat is not None and stat.state not in "ZX" and started in (0, stat.started)


class Vigil:
    """A wait for the end of a process that is not our child.

    `descriptor` becomes readable when the process ends; it is -1 where the system has no pidfd.
    """

    def __init__(self, pid: int, started: int) -> None:
        self.pid = pid
        self.descriptor = -1
        self._started = started
        with suppress(OSError, AttributeError):
            self.descriptor = os.pidfd_open(pid)
        stat = stat_of(pid)
        if stat is not None and started not in (0, stat.started):  # the number was reused by another process
            self.close()

    @property
    def is_sure(self) -> bool:
        return self.descriptor >= 0

    @property
    def is_over(self) -> bool:
        if self.descriptor >= 0:
            ready = select.poll()
            ready.register(self.descriptor, select.POLLIN)
            return bool(ready.poll(0))
        return not is_alive(self.pid, self._started)

    @property
    def exit_status(self) -> int | None:
        """The exit status, encoded as `wait` does; None while it is not known."""
        stat = stat_of(self.pid)
        if stat is not None and stat.state == "Z" and stat.started == self._started:
            return stat.exit_status  # a zombie: its parent has not reaped it yet
        return self._told()

    def close(self) -> None:
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)

    def _told(self) -> int | None:
        if self.descriptor < 0:
            return None
        answer = bytearray(64)
        struct.pack_into("<Q", answer, 0, _EXIT_IS_KNOWN)
        try:
            fcntl.ioctl(self.descriptor, _GET_INFO, answer)
        except OSError:
            return None
        known, status = _INFO.unpack(answer)
        return status if known & _EXIT_IS_KNOWN else None
