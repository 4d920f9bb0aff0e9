"""One event file: created exclusively, only appended to, and abandoned once its end is in doubt."""

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
# O_EXCL: a file of another process is never continued. O_BINARY exists on Windows only, where text mode would
# change line ends.
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)

_counter = itertools.count()
_latest_secs = 0  # the newest time stamp in a file name of this process


class EventFile:
    """An event file. `add` buffers bytes, and `drain` writes them, continuing where a failed call stopped.

    A failed write may leave the first part of a record in the file. Until `abandon`, nothing is cut off or
    written twice: the rest follows as soon as the disk takes it, so a copy made by offset stays valid.
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
        """Create a file in `run_dir` or, for ranks other than 0, in its side folder; may raise OSError."""
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
        """Write the buffered bytes; after an OSError it may be called again."""
        if self._waiting:
            self._status()
        while self._waiting:
            written = os.write(self._fd, self._waiting)
            # A short write is normal, but one of 0 bytes would repeat for ever.
            if written == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            self.size += written
            self._waiting = self._waiting[written:]
        self._whole_size = self.size

    def check(self) -> None:
        """Raise OSError if anyone else has deleted, replaced, truncated or written to the file."""
        status = self._status()
        # A deleted file takes writes through its descriptor without an error, and they vanish with it.
        if status.st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, "The event file was deleted", str(self.path))
        if status.st_size != self.size:
            complaint = f"The event file has {status.st_size} bytes, not {self.size}"
            raise OSError(errno.EIO, complaint, str(self.path))

    def abandon(self) -> None:
        """Close the file for good, if possible after cutting off an incomplete record at its end."""
        with contextlib.suppress(OSError):
            # Cut only what is surely ours: with any other size, somebody else has written or truncated.
            if self._status().st_size == self.size > self._whole_size:
                os.ftruncate(self._fd, self._whole_size)
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            # A network disk may report an error only now, when nothing can be done about it.
            with contextlib.suppress(OSError):
                self._status()
                os.close(self._fd)
            self._fd = -1

    def _status(self) -> os.stat_result:
        """Return the status of the file; raise OSError if the descriptor no longer belongs to it.

        A program that closes all file descriptors, as a daemon does, may have reused the number for its own.
        """
        status = os.fstat(self._fd)
        if identity_of(status) != self._identity:
            raise OSError(errno.EBADF, "The event file was closed by the program", str(self.path))
        return status


def identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def file_name(rank: int) -> str:
    """Return a name that no other process can have; names sort by age, as TensorBoard expects.

    Only rank 0 has the infix by which TensorBoard recognizes a folder as a run.
    """
    global _latest_secs
    _latest_secs = max(_latest_secs, int(time.time()))  # also when the clock was set back
    prefix = "events.out.tfevents" if rank == 0 else f"rank{rank}"
    # Without dots: the shipper and the reader find host and process id between the dots of the name.
    host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:64] or "host"
    return f"{prefix}.{_latest_secs:010d}.{host}.{os.getpid()}.{next(_counter):04d}{SUFFIX}"
