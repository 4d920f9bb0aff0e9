"""Files below a root that peers write to: safe from links, exactly once by offset, and synced to the disk.

Every call here blocks, and nothing here knows of networks.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import google_crc32c

from tb_netdebug.core.eventlog.writer.event_file import SIDE_FOLDER, SUFFIX
from tb_netdebug.transport.identity import identity_in, keep
from tb_netdebug.transport.limits import Limits
from tb_netdebug.transport.places import Destination, RefusedFile, namesake, namesake_number

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, because a FIFO may lie under the name: opening one would wait.
_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LINK = (errno.ELOOP, errno.ENOTDIR)
_HELD = (errno.EWOULDBLOCK, errno.EACCES)
_READ_BYTES = 1 << 20
# How many damaged copies of one file are kept. More than these do not come about by accident.
MOST_SET_ASIDE = 9


class ReceivedFiles:
    """The run folders and files below `root`, which is created when it is first needed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._claiming = threading.Lock()

    def claim(self, run: tuple[str, ...], identity: str, *, resumes: bool, limits: Limits) -> tuple[str, ...]:
        """Return the name of the run with this identity: `run`, or with a suffix when that is another run.

        With `resumes` the run of this very name continues, unless some run has the identity. Raise
        RefusedFile.
        """
        # One claim at a time: two runs of the same name must not both find it free.
        with self._claiming, _refusing(Destination(run[:-1], run[-1])):
            parent = self._folder(run[:-1])
            try:
                known = _namesakes(parent, run[-1])
                for number in sorted(known):
                    if _identity(parent, known[number]) == identity:
                        return namesake(run, number, limits)
                if resumes:
                    _keep_identity(parent, run[-1], identity)
                    return run
                for number in range(1, limits.namesakes + 1):
                    name = namesake(run, number, limits)
                    # Another process may claim the folder between the two calls: then try the next number.
                    if _is_free(parent, name[-1]) and _keep_identity(parent, name[-1], identity) == identity:
                        return name
            finally:
                os.close(parent)
        raise RefusedFile(f"There are {limits.namesakes} runs called {run[-1]!r}.")

    def open(self, place: Destination, *, restart: bool = False) -> LandedFile:
        """Open a file for appending, and create it if it is missing.

        No symbolic link is followed below the root. With `restart` the existing file is set aside under
        another name. Raise RefusedFile.
        """
        with _refusing(place):
            folder = self._folder(place.folders)
            try:
                fd = _opened(folder, place.name)
                if restart:
                    fd = _anew(folder, place.name, fd)
            finally:
                os.close(folder)
            return LandedFile(fd, place)

    def _folder(self, names: tuple[str, ...]) -> int:
        self.root.mkdir(parents=True, exist_ok=True)
        # The root itself may be a link: the user who started the collector has chosen it.
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in names:
            try:
                deeper = _subfolder(folder, name)
            finally:
                os.close(folder)
            folder = deeper
        return folder


class LandedFile:
    """A file open for appending, used from any thread.

    `close` waits for operations in progress, so that no write can reach another file that got the same
    descriptor.
    """

    def __init__(self, fd: int, place: Destination) -> None:
        self.place = place
        self.synced = 0
        self._fd = fd
        self._has_written = False
        self._has_failed = False
        self._appending = threading.Lock()
        self._syncing = threading.Lock()

    def append(self, offset: int, data: bytes) -> None:
        """Append the bytes that are not there yet.

        When only some fit onto the disk, these stay. Raise RefusedFile.
        """
        with self._appending, _refusing(self.place):
            # The size is read each time: the root may be the very logdir that the trainer itself writes to.
            size = self._status().st_size
            if offset > size:
                raise RefusedFile(f"{self.place} ends at {size}, before {offset}.", for_now=True)
            rest = memoryview(data)[size - offset :]
            while rest:
                written = os.write(self._fd, rest)
                if written == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._has_written = True
                rest = rest[written:]

    def sync(self) -> int:
        """Return how many bytes are on the disk from now on.

        Raise RefusedFile, and then only what was synced before may be trusted.
        """
        with self._syncing, _refusing(self.place):
            size = self._status().st_size
            try:
                _to_disk(self._fd)
            except OSError:
                self._give_up()
                raise
            if self._status().st_nlink == 0:  # no name is left, so the bytes end with the descriptor
                raise RefusedFile(f"{self.place} was deleted.", for_now=True)
            self.synced = size
            return size

    def tail_checksum(self, size: int, most_bytes: int) -> tuple[int, int]:
        """Return how many of the last of `size` bytes were read, and their CRC-32C.

        At most `most_bytes` are read. Raise RefusedFile.
        """
        with self._syncing, _refusing(self.place):
            self._status()
            begin, checksum = max(0, size - most_bytes), 0
            at = begin
            while at < size:
                data = os.pread(self._fd, min(_READ_BYTES, size - at), at)
                if not data:
                    raise RefusedFile(f"{self.place} became shorter.", for_now=True)
                checksum = google_crc32c.extend(checksum, data)
                at += len(data)
            return size - begin, checksum

    def close(self) -> None:
        with self._syncing, self._appending:
            if self._fd >= 0:
                fd, self._fd = self._fd, -1
                with suppress(OSError):  # a network disk reports late; all that was acknowledged is synced
                    os.close(fd)

    def _status(self) -> os.stat_result:
        if self._fd < 0 or self._has_failed:
            raise RefusedFile(f"{self.place} is closed.", for_now=True)
        return os.fstat(self._fd)

    def _give_up(self) -> None:
        """Cut the file back to its synced part after a failed sync.

        The kernel then takes its pages for written, so a second sync would find nothing to do. What another
        process wrote is not cut.
        """
        self._has_failed = True
        if self._has_written:
            with suppress(OSError):
                os.ftruncate(self._fd, self.synced)


@contextmanager
def _refusing(place: Destination) -> Iterator[None]:
    """Turn an OSError into a refusal for now: a disk that is full or broken today may work tomorrow."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RefusedFile(f"{place} cannot be written: {reason}.", for_now=True) from error


def _namesakes(parent: int, name: str) -> dict[int, str]:
    """Return the folders that have this name, with a suffix or without, by their number."""
    numbered = {namesake_number(name, each): each for each in os.listdir(parent)}
    numbered.pop(0, None)
    return numbered


def _identity(parent: int, name: str) -> str | None:
    """Return the identity of a run; None without one, "" when it cannot be compared."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    try:
        return identity_in(folder)
    finally:
        os.close(folder)


def _keep_identity(parent: int, name: str, identity: str) -> str:
    folder = _subfolder(parent, name)
    try:
        return keep(folder, identity, durable=True)
    finally:
        os.close(folder)


def _is_free(parent: int, name: str) -> bool:
    """Return whether a run may begin there.

    It may where there is nothing, or a folder that has neither an identity nor an event file.
    """
    return _identity(parent, name) is None and not _has_records(parent, name)


def _has_records(parent: int, name: str) -> bool:
    for path in (name, f"{name}/{SIDE_FOLDER}"):
        try:
            folder = os.open(path, _FOLDER, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            with os.scandir(folder) as entries:
                if any(entry.name.endswith(SUFFIX) for entry in entries):
                    return True
        finally:
            os.close(folder)
    return False


def _subfolder(folder: int, name: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=folder)
        os.fsync(folder)  # else a crash could lose the folder, with synced files in it
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in _LINK:
            raise RefusedFile(f"{name!r} is a link or a file, but must be a folder.") from None
        raise


def _opened(folder: int, name: str) -> int:
    """Open an ordinary file that is there, or create it; lock it, so that no other agent sends to it."""
    try:
        fd = os.open(name, _FILE | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
        is_new = True
    except FileExistsError:
        is_new = False
        try:
            fd = os.open(name, _FILE, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise RefusedFile(f"{name} exists, but is not a file.") from None
            raise
    try:
        _check(fd, name)
        if is_new:
            os.fsync(folder)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(fd: int, name: str) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise RefusedFile(f"{name} exists, but is not a file.")
    if status.st_nlink > 1:
        raise RefusedFile(
            f"{name} has a second name (a hard link): writing to it would change the other, too."
        )
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise RefusedFile(f"Another agent is sending {name}.", for_now=True) from None
        # Some network disks have no locks; there the offsets alone keep the file right.


def _anew(folder: int, name: str, fd: int) -> int:
    """Set the file aside and return a new one.

    A peer's word must never destroy what is on the disk.
    """
    try:
        for number in range(1, MOST_SET_ASIDE + 1):
            # A name that neither NetDebug nor TensorBoard takes for an event file.
            aside = f"set-aside.{number}.{name.removeprefix('events.out.tfevents.')}.damaged"
            try:
                os.stat(aside, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
                return _opened(folder, name)
    finally:
        os.close(fd)
    raise RefusedFile(f"{name} was restarted {MOST_SET_ASIDE} times, which is the limit.")


def _to_disk(fd: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)
