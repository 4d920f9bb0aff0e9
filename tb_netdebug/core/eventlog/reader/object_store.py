"""Event files in an object store, through fsspec; chosen by `storage.storage_of`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import fsspec

from tb_netdebug.core.eventlog.reader.storage import FileState, OpenFile, is_event_file

# Each driver of fsspec has its own name for the time of the last change.
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created", "timeModified")


class ObjectStore:
    """A bucket, or another store behind fsspec.

    Stores cannot append: an object that has grown is a new one. So its identity tells nothing, and a
    follower compares the last bytes read.
    """

    is_remote = True

    def __init__(self, filesystem: Any) -> None:
        self._filesystem = filesystem

    @classmethod
    def of(cls, url: str) -> tuple[ObjectStore, str]:
        """Return the store of a URL and the path in it. Raises OSError if its driver is missing."""
        try:
            filesystem, path = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise OSError(f"no fsspec driver is installed for it: {error}") from error
        return cls(filesystem), str(path).rstrip("/")

    def walk(self, root: str) -> Iterator[tuple[str, dict[str, FileState]]]:
        # fsspec caches listings, and an old one hides what was uploaded since.
        self._filesystem.invalidate_cache()
        with _as_os_errors():
            if not self._filesystem.exists(root or "/"):
                raise FileNotFoundError(2, "there is nothing with this name", root)
            found = self._filesystem.find(root, detail=True)
        folders: dict[str, dict[str, FileState]] = {}
        for path, details in found.items():
            folder, _, name = str(path).rpartition("/")
            if details.get("type") == "file" and is_event_file(name):
                folders.setdefault(folder, {})[name] = _state(details)
        yield from sorted(folders.items())

    def files(self, folder: str) -> dict[str, FileState]:
        self._filesystem.invalidate_cache()
        try:
            with _as_os_errors():
                found = self._filesystem.ls(folder, detail=True)
        except OSError:
            return {}
        names = {str(details["name"]).rpartition("/")[2]: details for details in found}
        return {
            name: _state(details)
            for name, details in names.items()
            if details.get("type") == "file" and is_event_file(name)
        }

    @contextmanager
    def open(self, path: str) -> Iterator[OpenFile]:
        yield _Object(self._filesystem, path)


class _Object:
    def __init__(self, filesystem: Any, path: str) -> None:
        self._filesystem = filesystem
        self._path = path

    def at(self, offset: int, size: int) -> bytes:
        with _as_os_errors():
            return bytes(self._filesystem.cat_file(self._path, start=offset, end=offset + size))

    def behind_hole(self, offset: int) -> int:
        return offset


def _state(details: dict[str, Any]) -> FileState:
    changed = next((details[name] for name in _TIMES if details.get(name) is not None), 0.0)
    return FileState(int(details.get("size") or 0), _seconds(changed), ())


def _seconds(moment: Any) -> float:
    """Return a time as seconds: stores give it as a number, a datetime or text."""
    if hasattr(moment, "timestamp"):
        return float(moment.timestamp())
    if isinstance(moment, str):
        try:
            return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return 0.0
    return float(moment)


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Raise what drivers raise as OSError: each has exceptions of its own."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
