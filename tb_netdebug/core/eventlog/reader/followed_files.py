"""Follows the files of one run; a refresh reads only what was added. Base of `Recording` and `Summaries`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping

from tb_netdebug.core.eventlog.reader.file_index import FileIndex
from tb_netdebug.core.eventlog.reader.storage import FileState, Storage


class FollowedFiles(ABC):
    """The files of a run, safe from any thread.

    `refresh` changes it under a lock; what readers hold by then stays valid. A subclass takes in what is new
    in a file in `_take`, removes a file that is gone or will be read anew in `_drop`, and in `_settle`
    publishes what was taken in.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.path = path
        self.complaints: dict[str, str] = {}
        self._unreadable: dict[str, str] = {}
        self._storage = storage
        self._lock = threading.RLock()
        self._files: dict[str, FileIndex] = {}
        self.files: tuple[FileIndex, ...] = ()  # oldest first

    @property
    def complaint(self) -> str | None:
        """The first complaint about the run as a whole, as a sentence."""
        return next(iter([*self._unreadable.values(), *self.complaints.values()]), None)

    def refresh(self, states: Mapping[str, FileState]) -> bool:
        """Read what was added to the files; return whether anything was."""
        with self._lock:
            lost = [
                path
                for path, file in self._files.items()
                if path not in states or file.is_other(states[path])
            ]
            for path in lost:
                self._forget(path)
            changed = [self._follow(path, state) for path, state in states.items()]
            # A file may arrive late and still belong before others: take the order of `states`.
            self._files = {path: self._files[path] for path in states if path in self._files}
            if lost or any(changed):
                self.files = tuple(self._files.values())
                self._settle()
                return True
            return False

    def _forget(self, path: str) -> None:
        self._drop(self._files.pop(path))
        self.complaints.pop(path, None)
        self._unreadable.pop(path, None)

    def _follow(self, path: str, state: FileState) -> bool:
        known = self._files.get(path)
        before = known, known and known.progress, self._unreadable.pop(path, None)
        file = known or FileIndex(self._storage, path)
        self._files[path] = file
        try:
            self._read(file, state)
        except OSError as error:
            reason = error.strerror or str(error)
            self._unreadable[path] = f"{path.rpartition('/')[2]} cannot be read: {reason}."
        file = self._files[path]
        return before != (file, file.progress, self._unreadable.get(path))

    def _read(self, file: FileIndex, state: FileState) -> None:
        try:
            self._take(file, state)
        except FileExistsError:  # another file of the same name
            self._forget(file.path)
            self._files[file.path] = anew = FileIndex(self._storage, file.path)
            self._take(anew, state)

    @abstractmethod
    def _take(self, file: FileIndex, state: FileState) -> None: ...

    @abstractmethod
    def _drop(self, file: FileIndex) -> None: ...

    @abstractmethod
    def _settle(self) -> None: ...
