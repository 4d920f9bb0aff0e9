"""One event file: made exclusively, only ever appended to, and left alone once its end is in doubt."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import socket
import time
from pathlib import Path

SUFFIX = ".netdebug"
SIDE_FOLDER = Path("plugins", "netdebug")
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_counter = itertools.count()
_latest_secs = 0


class EventFile:
    """Bytes given to `add` reach the file with `drain`, which goes on where a failed one stopped.

    A failed write leaves the front part of a record in the file. Nothing is cut off or written twice:
    the rest follows as soon as the disk takes it, so whoever copies the file by offset stays right.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.size = 0
        self._fd = fd
        self._identity = identity_of(os.fstat(fd))
        self._waiting = memoryview(b"")
        self._whole_size = 0

    @classmethod
    def create(cls, run_dir: Path, *, rank: int = 0) -> EventFile:
        """A new file in `run_dir`, or for other ranks than 0 in its side folder. Raises OSError."""
        folder = run_dir if rank == 0 else run_dir / SIDE_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            path = folder / file_name(rank)
            with contextlib.suppress(FileExistsError):
                return cls(path, os.open(path, _FLAGS, 0o644))

    @property
    def unfinished(self) -> bool:
        return len(self._waiting) > 0

    def add(self, data: bytes) -> None:
        self._waiting = memoryview(bytes(self._waiting) + data) if self._waiting else memoryview(data)

    def drain(self) -> None:
        """Write what waits. Raises OSError, and may be called again afterwards."""
        if self._waiting:
            self._status()
        while self._waiting:
            written = os.write(self._fd, self._waiting)
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            self.size += written
            self._waiting = self._waiting[written:]
        self._whole_size = self.size

    def check(self) -> None:
        """Raise OSError if the file was deleted, replaced, cut or written to by somebody else."""
        status = self._status()
        if status.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "The event file was deleted", str(self.path))
        if status.st_size != self.size:
            complaint = f"The event file has {status.st_size} bytes, not {self.size}"
            raise OSError(errno.EIO, complaint, str(self.path))

    def abandon(self) -> None:
        """Give the file up, if possible without the front part of a record at its end."""
        with contextlib.suppress(OSError):
            if self._status().st_size == self.size > self._whole_size:
                os.ftruncate(self._fd, self._whole_size)
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a network disk reports late; nothing is left to be done
                self._status()
                os.close(self._fd)
            self._fd = -1

    def _status(self) -> os.stat_result:
        """Raise OSError when the descriptor is not of this file: a program that closes all descriptors, as a
        daemon does, may have opened a file of its own there."""
        status = os.fstat(self._fd)
        if identity_of(status) != self._identity:
            raise OSError(errno.EBADF, "The event file was closed by the program", str(self.path))
        return status


def identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def file_name(rank: int) -> str:
    """A name no other process can have; sorting by name is sorting by age, as TensorBoard expects.

    Only rank 0 carries the infix by which TensorBoard takes a folder for a run of its own.
    """
    global _latest_secs
    _latest_secs = max(_latest_secs, int(time.time()))  # also when the clock was set back
    prefix = "events.out.tfevents" if rank == 0 else f"rank{rank}"
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:64] or "host"
    return f"{prefix}.{_latest_secs:010d}.{host}.{os.getpid()}.{next(_counter):04d}{SUFFIX}"
