"""Files below a root that peers write to: safe from links, exactly once by offset, and on the disk.

Everything here blocks, and nothing knows of networks.
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
# Not waiting: somebody may have put a pipe there.
_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LINK = (errno.ELOOP, errno.ENOTDIR)
_HELD = (errno.EWOULDBLOCK, errno.EACCES)
_READ_BYTES = 1 << 20
# So many damaged copies of one file are kept; more of them nobody makes by accident.
MOST_SET_ASIDE = 9


class Landing:
    """The folders and files below `root`, which is made when it is needed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._claiming = threading.Lock()

    def claim(self, run: tuple[str, ...], identity: str, *, resumes: bool, limits: Limits) -> tuple[str, ...]:
        """Return the name of the run of this identity: `run`, or with a suffix when that is another one.

        With `resumes` the run of this very name goes on, unless there is one of the identity. Raise Refused.
        """
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
                    if _is_free(parent, name[-1]) and _keep_identity(parent, name[-1], identity) == identity:
                        return name
            finally:
                os.close(parent)
        raise RefusedFile(f"There are {limits.namesakes} runs called {run[-1]!r}.")

    def open(self, place: Destination, *, restart: bool = False) -> LandedFile:
        """The file, made when it is missing, and then in no folder that a link leads to. With `restart`, what
        is there is set aside under another name. Raises Refused."""
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
        folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for name in names:
            try:
                deeper = _subfolder(folder, name)
            finally:
                os.close(folder)
            folder = deeper
        return folder


class LandedFile:
    """Open for appending, by any thread. `close` waits for what others do with it at that moment, so that no
    write can ever reach another file that got the same descriptor."""

    def __init__(self, fd: int, place: Destination) -> None:
        self.place = place
        self.synced = 0
        self._fd = fd
        self._has_written = False
        self._has_failed = False
        self._appending = threading.Lock()
        self._syncing = threading.Lock()

    def append(self, offset: int, data: bytes) -> None:
        """Bytes that are there already are left out. Raises Refused; what fitted stays."""
        with self._appending, _refusing(self.place):
            # The size is asked for each time: the root may be the very logdir that the trainer writes to.
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
        """How much of it the disk has from now on. Raises Refused, and then nothing of it may be trusted that
        was not synced before."""
        with self._syncing, _refusing(self.place):
            size = self._status().st_size
            try:
                _to_disk(self._fd)
            except OSError:
                self._give_up()
                raise
            if self._status().st_nlink == 0:
                raise RefusedFile(f"{self.place} was deleted.", for_now=True)
            self.synced = size
            return size

    def tail_checksum(self, size: int, most_bytes: int) -> tuple[int, int]:
        """Of the first `size` bytes, how many of the last were read, and their CRC-32C. Raises Refused."""
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
                with suppress(OSError):  # a network disk reports late; what was acknowledged was synced
                    os.close(fd)

    def _status(self) -> os.stat_result:
        if self._fd < 0 or self._has_failed:
            raise RefusedFile(f"{self.place} is closed.", for_now=True)
        return os.fstat(self._fd)

    def _give_up(self) -> None:
        """After a failed sync the system takes its copy in memory for written, and a second sync would find
        nothing to do. What somebody else wrote is not ours to cut."""
        self._has_failed = True
        if self._has_written:
            with suppress(OSError):
                os.ftruncate(self._fd, self.synced)


@contextmanager
def _refusing(place: Destination) -> Iterator[None]:
    """A disk that is full or broken today may work tomorrow."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise RefusedFile(f"{place} cannot be written: {reason}.", for_now=True) from error


def _namesakes(parent: int, name: str) -> dict[int, str]:
    """Return what is called so, with a suffix or without, by its number."""
    numbered = {namesake_number(name, each): each for each in os.listdir(parent)}
    numbered.pop(0, None)
    return numbered


def _identity(parent: int, name: str) -> str | None:
    """Return the identity of a run; None when it has none, "" when it is none that can be compared."""
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
    """Whether a run may begin there: there is nothing, or a folder without identity and records of ours."""
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
        os.fsync(folder)
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        if error.errno in _LINK:
            raise RefusedFile(f"{name!r} is a link or a file, and a folder was expected there.") from None
        raise


def _opened(folder: int, name: str) -> int:
    """The file that is there if it is an ordinary one, else a new one; nobody else sends to it."""
    try:
        fd = os.open(name, _FILE | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=folder)
        is_new = True
    except FileExistsError:
        is_new = False
        try:
            fd = os.open(name, _FILE, dir_fd=folder)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                raise RefusedFile(f"{name} is there, and is no file.") from None
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
        raise RefusedFile(f"{name} is there, and is no file.")
    if status.st_nlink > 1:
        raise RefusedFile(f"{name} has a second name: what is written to it would change the other, too.")
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            raise RefusedFile(f"Another agent sends {name}.", for_now=True) from None
        # Some network disks have no locks; offsets keep the file right without them.


def _anew(folder: int, name: str, fd: int) -> int:
    """Nothing that was on the disk is lost because a peer says so."""
    try:
        for number in range(1, MOST_SET_ASIDE + 1):
            # Under this name neither NetDebug nor TensorBoard takes it for a recording.
            aside = f"set-aside.{number}.{name.removeprefix('events.out.tfevents.')}.damaged"
            try:
                os.stat(aside, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
                return _opened(folder, name)
    finally:
        os.close(fd)
    raise RefusedFile(f"{name} was begun anew {MOST_SET_ASIDE} times, and that is enough.")


def _to_disk(fd: int) -> None:
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)
