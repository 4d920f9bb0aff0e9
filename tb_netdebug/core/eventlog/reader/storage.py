"""Storages that event files lie in: a local disk here, an object store in `object_store.py`."""

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
    """Size, time of change and identity of a file; `identity` differs once another file is in its place."""

    size: int
    changed: float
    identity: tuple[Any, ...]


class OpenFile(Protocol):
    """A file that is open for reading."""

    def at(self, offset: int, size: int) -> bytes:
        """Read up to `size` bytes, fewer at the end of the file. Raises OSError."""

    def behind_hole(self, offset: int) -> int:
        """Return where the hole around `offset` in a sparse file ends, or `offset` itself outside of holes.

        Raises OSError.
        """


class Storage(Protocol):
    """A tree of folders with event files. Paths are absolute, with `/` between their parts."""

    is_remote: bool

    def walk(self, root: str) -> Iterator[tuple[str, dict[str, FileState]]]:
        """Yield every folder from `root` down with its event files by name; links are not followed.

        Raises OSError if `root` itself cannot be read.
        """

    def files(self, folder: str) -> dict[str, FileState]:
        """Return the event files in one folder by name; none if there is no such folder."""

    def open(self, path: str) -> AbstractContextManager[OpenFile]:
        """Open a file for reading. Raises OSError."""


def storage_of(root: str) -> tuple[Storage, str]:
    """Return the storage of a path or URL, and the path in it. Raises OSError."""
    if root.lower().startswith("file://"):
        root = root[len("file://") :]
    if not is_url(root):
        return Local(), os.path.abspath(os.path.expanduser(root)).replace(os.sep, "/")  # noqa: PTH100, PTH111
    from tb_netdebug.core.eventlog.reader.object_store import ObjectStore  # fsspec takes a while to import

    return ObjectStore.of(root)


class Local:
    """The file systems of this machine, mounted ones included."""

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
                except OSError:  # deleted meanwhile
                    continue
        return folders, files

    def files(self, folder: str) -> dict[str, FileState]:
        try:
            return self._list(folder)[1]
        except OSError:
            return {}

    @contextmanager
    def open(self, path: str) -> Iterator[OpenFile]:
        # Listings skip links, and a link that has taken the place of a file since must not lead elsewhere.
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
    """Return where the data of a sparse file go on; moves its position. Raises OSError."""
    if not hasattr(os, "SEEK_DATA"):
        return offset
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but zeros up to the end
            return os.lseek(descriptor, 0, os.SEEK_END)
        return offset  # the file system does not report holes


def _state(status: os.stat_result) -> FileState:
    return FileState(status.st_size, status.st_mtime, (status.st_dev, status.st_ino))


def is_event_file(name: str) -> bool:
    return is_ours(name) or "tfevents" in name


def is_ours(name: str) -> bool:
    return name.endswith(".netdebug")
