"""All runs of a logdir."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tb_netdebug.reader.block_cache import BlockCache
from tb_netdebug.reader.block_reader import BlockReader
from tb_netdebug.reader.followed_run import FollowedRun
from tb_netdebug.reader.places import RunFiles, RunPlace, find_runs, in_order
from tb_netdebug.reader.storage import Storage, storage_of

__all__ = ["LogDir", "RunPlace"]


class LogDir:
    """Finds runs below its roots, which are pairs of a prefix for their names and a path or URL.

    Safe from any thread. Decoded blocks of all runs share one cache of `cache_bytes`.
    """

    def __init__(self, roots: Sequence[tuple[str, str]], *, cache_bytes: int = 192 << 20) -> None:
        self.complaints: list[str] = []
        self.cache = BlockCache(cache_bytes)
        self._roots = list(roots)
        self._reader = BlockReader(self.cache)
        self._lock = threading.RLock()
        self._storages: dict[str, tuple[Storage, str]] = {}
        self._files: dict[str, RunFiles] = {}
        self._places: Mapping[str, RunPlace] = MappingProxyType({})
        self._open: dict[str, FollowedRun] = {}

    @property
    def runs(self) -> Mapping[str, RunPlace]:
        """By name, those with numbers in their names in the order of the numbers; "." is a root itself."""
        return self._places

    def refresh(self) -> bool:
        """Looks for runs; whether any came, went or became another. What cannot be read is a complaint."""
        with self._lock:
            found: dict[str, RunFiles] = {}
            self.complaints = [
                complaint for prefix, root in self._roots if (complaint := self._look(prefix, root, found))
            ]
            changed = set(found) != set(self._files)
            for name in [*self._files]:
                if name not in found or found[name].path != self._files[name].path:
                    self._open.pop(name, None)
            for name, files in found.items():
                if name in self._open:
                    self._open[name].use(files)
                changed |= name in self._files and files.kind != self._files[name].kind
            self._files = found
            self._places = MappingProxyType({name: found[name].place(name) for name in in_order(found)})
            return changed

    def open(self, name: str) -> FollowedRun:
        """The run of that name, the same object each time. Raises KeyError."""
        with self._lock:
            if name not in self._open:
                self._open[name] = FollowedRun(name, self._files[name], self._reader)
            return self._open[name]

    def close(self) -> None:
        with self._lock:
            self._open.clear()

    def _look(self, prefix: str, root: str, found: dict[str, RunFiles]) -> str:
        """Adds the runs of a root; why it cannot be read, if so."""
        try:
            if root not in self._storages:
                self._storages[root] = storage_of(root)
            storage, path = self._storages[root]
            for name, files in find_runs(storage, path, prefix).items():
                found.setdefault(name, files)
        except OSError as error:
            return f"{root} cannot be read: {error.strerror or error}."
        return ""
