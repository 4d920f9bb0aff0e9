"""Where event files lie: on a disk, or in an object store behind fsspec."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from tb_netdebug.core.eventlog.writer.spool import is_url as is_url


@dataclass(frozen=True, slots=True)
class FileState:
    """`identity` differs when another file has taken the place."""

    size: int
    changed: float
    identity: tuple[Any, ...]


class OpenFile(Protocol):
    """An open file."""

    def at(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end. Raises OSError."""

    def behind_hole(self, offset: int) -> int:
        """Where the hole of a sparse file ends in which `offset` lies; itself when it lies in none. Raises
        OSError."""


class Storage(Protocol):
    """Paths are whole ones, with `/` between their parts."""

    is_remote: bool

    def walk(self, root: str) -> Iterator[tuple[str, dict[str, FileState]]]:
        """Every folder from `root` down with its files by name; links are not followed. Raises OSError when
        `root` itself cannot be read."""

    def files(self, folder: str) -> dict[str, FileState]:
        """The event files in one folder by name; none when it is not there."""

    def open(self, path: str) -> AbstractContextManager[OpenFile]:
        """Raises OSError."""


def storage_of(root: str) -> tuple[Storage, str]:
    """The storage of a path or URL, and the path in it. Raises OSError."""
    if root.lower().startswith("file://"):
        root = root[len("file://") :]
    if not is_url(root):
        return Local(), os.path.abspath(os.path.expanduser(root)).replace(os.sep, "/")  # noqa: PTH100, PTH111
    from tb_netdebug.core.eventlog.reader.object_store import ObjectStore  # fsspec takes a while to import

    return ObjectStore.of(root)


class Local:
    """A disk of this machine, or one that is mounted."""

    is_remote = False

    def walk(self, root: str) -> Iterator[tuple[str, dict[str, FileState]]]:
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            try:
                folders, files = self._list(folder)
            except OSError:
                if folder == root:
                    raise
                continue
            yield folder, files
            waiting += [f"{folder.rstrip('/')}/{name}" for name in sorted(folders, reverse=True)]

    def _list(self, folder: str) -> tuple[list[str], dict[str, FileState]]:
        folders, files = [], {}
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.name)
                    elif entry.is_file(follow_symlinks=False) and is_event_file(entry.name):
                        files[entry.name] = _state(entry.stat(follow_symlinks=False))
                except OSError:  # it went away meanwhile
                    continue
        return folders, files

    def files(self, folder: str) -> dict[str, FileState]:
        try:
            return self._list(folder)[1]
        except OSError:
            return {}

    @contextmanager
    def open(self, path: str) -> Iterator[OpenFile]:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0))
        try:
            yield _Descriptor(descriptor)
        finally:
            os.close(descriptor)


class _Descriptor:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def at(self, offset: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, offset)

    def behind_hole(self, offset: int) -> int:
        return behind_hole(self._descriptor, offset)


def behind_hole(descriptor: int, offset: int) -> int:
    """Where the data of a file go on; moves its position. Raises OSError."""
    if not hasattr(os, "SEEK_DATA"):
        return offset
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but zeros up to the end
            return os.lseek(descriptor, 0, os.SEEK_END)
        return offset  # a file system that does not tell


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime, (status.st_dev, status.st_ino))


def is_event_file(name: str) -> bool:
    return is_ours(name) or "tfevents" in name


def is_ours(name: str) -> bool:
    return name.endswith(".netdebug")
