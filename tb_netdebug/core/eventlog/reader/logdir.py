"""All runs of a logdir: the way into the reader for `viewer/plugin/` and `cli/`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from tb_netdebug.core.eventlog.reader import places
from tb_netdebug.core.eventlog.reader.block_cache import BlockCache
from tb_netdebug.core.eventlog.reader.block_reader import BlockReader
from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.places import RunFiles, RunListing, find_runs, in_order
from tb_netdebug.core.eventlog.reader.storage import Storage, storage_of

__all__ = ["LogDir", "LogdirRoot", "RunListing"]


class LogdirRoot:
    """A folder with everything below it; `storage` and `path` are set once it was reached."""

    def __init__(self, prefix: str, url: str) -> None:
        self.prefix = prefix
        self.url = url
        self.storage: Storage | None = None
        self.path = ""
        self.complaint = ""
        self.runs: dict[str, RunFiles] = {}
        self.folders: list[str] = []

    def look(self) -> None:
        """Find the runs, or note in `complaint` why they cannot be found."""
        self.complaint = ""
        try:
            if self.storage is None:
                self.storage, self.path = storage_of(self.url)
            self.runs, self.folders = find_runs(self.storage, self.path, self.prefix)
        except OSError as error:
            self.complaint = f"{self.url} cannot be read: {error.strerror or error}."
        else:
            if len(self.folders) >= places.MOST_FOLDERS:
                self.complaint = f"{self.url} has more folders than NetDebug searches. Give one of them."


class LogDir:
    """Finds runs below its roots, which are pairs of a prefix for run names and a path or URL.

    Safe from any thread. Unpacked blocks of all runs share one cache of `cache_bytes`.
    """

    def __init__(self, roots: Sequence[tuple[str, str]], *, cache_bytes: int = 96 << 20) -> None:
        self.complaints: list[str] = []
        self.cache = BlockCache(cache_bytes)
        self.roots = [LogdirRoot(prefix, url) for prefix, url in roots]
        self._reader = BlockReader(self.cache)
        self._looking = threading.Lock()
        self._lock = threading.Lock()
        self._files: dict[str, RunFiles] = {}
        self._places: Mapping[str, RunListing] = MappingProxyType({})
        self._open: dict[str, FollowedRun] = {}

    @property
    def runs(self) -> Mapping[str, RunListing]:
        """The runs by name, with numbers in names in numeric order; "." is the run in a root itself."""
        return self._places

    def refresh(self, roots: Iterable[LogdirRoot] | None = None) -> bool:
        """Look for runs below all roots or some; return whether any came, went or was replaced.

        A root that cannot be read becomes a complaint.
        """
        with self._looking:
            for root in self.roots if roots is None else roots:
                root.look()
            self.complaints = [root.complaint for root in self.roots if root.complaint]
            found: dict[str, RunFiles] = {}
            for root in reversed(self.roots):  # of equal names the first root's run wins
                found.update(root.runs)
            with self._lock:
                return self._settle(found)

    def _settle(self, found: dict[str, RunFiles]) -> bool:
        same = {
            name for name, files in found.items() if name in self._files and files.is_as(self._files[name])
        }
        for name in [*self._open]:
            if name in found and found[name].path == self._open[name].path:
                self._open[name].use(found[name])
            else:
                del self._open[name]
        changed = len(same) < len(found) or len(found) != len(self._files)
        self._files = found
        self._places = MappingProxyType({name: found[name].place(name) for name in in_order(found)})
        return changed

    def open(self, name: str) -> FollowedRun:
        """Return the run of that name, the same object each time. Raises KeyError."""
        with self._lock:
            if name not in self._open:
                self._open[name] = FollowedRun(name, self._files[name], self._reader)
            return self._open[name]

    def close(self) -> None:
        """Release all runs."""
        with self._lock:
            self._open.clear()
