"""Upload of the finished files of a run to its object store through fsspec, on a thread of its own.

A file is sent once, as an object of the same name, and deleted when the store has it. A file that the store
does not take stays where it is and is tried again, at the latest by the next run recorded to the same place.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import psutil

from tb_netdebug.core.eventlog.writer.event_file import SUFFIX
from tb_netdebug.core.eventlog.writer.run_log import RunLog, open_paths
from tb_netdebug.core.eventlog.writer.spool import Spool
from tb_netdebug.core.eventlog.writer.store_trouble import trouble

_LOOK_SECS = 1.0
_LAST_RETRY_SECS = 60.0
_CLOSING_RETRY_SECS = 0.5
# Protocols with real folders, which must exist before a file is put there; object stores have none.
_WITH_FOLDERS = frozenset({"sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs", "local"})
# The host and process id in a file name made by `event_file.file_name`.
_OF_PROCESS = re.compile(r"\.([^.]+)\.(\d+)\.\d{4,}" + re.escape(SUFFIX) + "$")


class Shipper:
    """The upload thread: `start` begins it, `finish` ends it, and `say` receives a message on failure."""

    def __init__(
        self, spool: Spool, log: RunLog, *, nudge: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self.cost_secs = 0.0
        self.shipped = 0
        self._spool = spool
        self._log = log
        self._nudge = nudge
        self._say = say
        self._filesystem: Any = None
        self._root = ""
        self._retry_secs = _LOOK_SECS
        self._end_at = float("inf")
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="netdebug-shipper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, *, timeout_secs: float) -> list[Path]:
        """Wait until the store has all of this run, whose log is closed; return the files still missing."""
        if self._thread.ident is not None:
            self._end_at = time.monotonic() + timeout_secs
            self._bell.put(None)
            # A second longer than the thread gives itself, so that its own deadline comes first.
            self._thread.join(timeout=timeout_secs + 1.0)
        return [path for path in self._waiting() if self._log.run_dir in path.parents]

    # ---- on the thread

    def _run(self) -> None:
        while True:
            is_closing = self._end_at < float("inf")
            if self._log.is_due:
                self._nudge()
            self._ship_all()
            self.cost_secs = time.thread_time()
            if is_closing and (time.monotonic() >= self._end_at or not any(self._waiting())):
                return
            with suppress(Empty):
                self._bell.get(timeout=_CLOSING_RETRY_SECS if is_closing else self._retry_secs)

    def _ship_all(self) -> None:
        try:
            for path in self._waiting():
                self._ship(path)
            self._retry_secs = _LOOK_SECS
        except Exception as error:  # drivers raise errors of their own, of any class
            self._retry_secs = min(2 * self._retry_secs, _LAST_RETRY_SECS)
            self._say(trouble(error, self._spool))

    def _ship(self, path: Path) -> None:
        if self._filesystem is None:
            self._filesystem, self._root = opened(self._spool.url)
        target = f"{self._root}/{path.relative_to(self._spool.folder).as_posix()}"
        protocol = self._filesystem.protocol
        if not _WITH_FOLDERS.isdisjoint([protocol] if isinstance(protocol, str) else protocol):
            self._filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
        try:
            self._filesystem.put_file(str(path), target)
        except FileNotFoundError:
            if path.exists():
                raise
            return  # another process has sent it
        path.unlink(missing_ok=True)
        self.shipped += 1

    def _waiting(self) -> Iterator[Path]:
        """Yield finished files, the oldest first: those of this process, and of processes that have ended."""
        busy = open_paths()
        host = re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:64]
        # Files of other hosts, as in a shared home, are left alone: whether their process lives is not known.
        for path in sorted(self._spool.folder.rglob(f"*{SUFFIX}"), key=lambda path: path.name):
            found = _OF_PROCESS.search(path.name)
            if found is None or found[1] != host or path in busy:
                continue
            pid = int(found[2])
            # A reused PID only delays the upload until that process has ended as well.
            if pid == os.getpid() or not psutil.pid_exists(pid):
                yield path


def opened(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it."""
    import fsspec  # slow to import

    filesystem, path = fsspec.core.url_to_fs(url)
    return filesystem, str(path).rstrip("/")
