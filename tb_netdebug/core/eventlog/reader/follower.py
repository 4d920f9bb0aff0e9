"""Watches a logdir and reports which runs have changed."""

from __future__ import annotations

import logging
import os
import selectors
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tb_netdebug.core.eventlog.reader.inotify import Inotify
from tb_netdebug.core.eventlog.reader.logdir import LogDir, LogdirRoot
from tb_netdebug.core.eventlog.reader.mounts import is_shared
from tb_netdebug.core.eventlog.reader.places import SIDE_FOLDER, RunListing
from tb_netdebug.core.eventlog.reader.storage import is_event_file, is_url

logger = logging.getLogger(__name__)

OnChange = Callable[[set[str], bool], None]

# Writes within this time are reported in one call.
TOGETHER_SECS = 0.01
# How often to poll without notification: a local disk, one that other machines write to, an object store.
LOCAL_SECS, SHARED_SECS, STORE_SECS = 0.25, 1.0, 5.0
# Notifications may be lost, so poll now and then all the same.
SURE_SECS = 30.0
# Polling takes at most this share of the time.
MOST_SHARE = 0.1
MOST_WATCHES = 8192
_LIMIT = Path("/proc/sys/fs/inotify/max_user_watches")


class Follower:
    """Calls `on_change(names, listing_changed)` when runs change.

    `names` are the runs whose files have changed; `listing_changed` says whether runs came or went. The calls
    come from threads of its own, never two at once. `close` waits for these threads.

    On local disks inotify reports writes, in at most some thousand folders; elsewhere the follower polls.
    After `start` the first poll reports all runs.
    """

    def __init__(self, logdir: LogDir, on_change: OnChange) -> None:
        self._logdir = logdir
        self._on_change = on_change
        self._telling = threading.Lock()
        self._watches: list[_Watch] = []

    def start(self) -> None:
        groups: dict[float, list[LogdirRoot]] = {}
        for root in self._logdir.roots:
            groups.setdefault(pace_of(root), []).append(root)
        for secs, roots in groups.items():
            watch = _Watch(self._logdir, roots, secs, self._tell)
            self._watches.append(watch)
            watch.start()

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
        self._watches.clear()

    def _tell(self, names: set[str], listing_changed: bool) -> None:
        with self._telling:
            try:
                self._on_change(names, listing_changed)
            except Exception:  # a failing callback must not stop the watch
                logger.exception("NetDebug could not read the changes in the logdir")


def pace_of(root: LogdirRoot) -> float:
    if is_url(root.url):
        return STORE_SECS
    path = os.path.realpath(os.path.expanduser(root.url))  # noqa: PTH111
    return SHARED_SECS if is_shared(path) else LOCAL_SECS


class _Watch:
    """A thread that watches the roots with the same polling interval."""

    def __init__(self, logdir: LogDir, roots: list[LogdirRoot], secs: float, tell: OnChange) -> None:
        self._logdir = logdir
        self._roots = roots
        self._secs = secs
        self._tell = tell
        self._thread = threading.Thread(target=self._run, name="netdebug-follower", daemon=True)
        self._closing = threading.Event()
        # `close` writes to this pipe, to wake the thread from its select.
        self._wake_reader, self._wake_writer = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._notices: Inotify | None = None
        self._places: dict[str, RunListing] = {}
        self._runs: dict[str, str] = {}  # run names by folder
        self._next_look = 0.0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        os.write(self._wake_writer, b"x")
        self._thread.join()
        self._selector.close()
        os.close(self._wake_reader)
        os.close(self._wake_writer)

    # ---- on the thread

    def _run(self) -> None:
        if self._secs == LOCAL_SECS:
            with suppress(OSError):  # then polling has to do
                self._notices = Inotify()
                self._selector.register(self._notices.descriptor, selectors.EVENT_READ)
        try:
            while not self._closing.is_set():
                self._turn()
        finally:
            if self._notices is not None:
                self._notices.close()

    def _turn(self) -> None:
        names: set[str] = set()
        is_due = time.monotonic() >= self._next_look
        if self._wait(max(0.0, self._next_look - time.monotonic())) and not self._closing.is_set():
            self._wait_for_more()
            names, is_unclear = self._noticed()
            is_due |= is_unclear
        listing_changed = False
        if is_due and not self._closing.is_set():
            changed, listing_changed = self._look()
            names |= changed
        if names or listing_changed:
            self._tell(names, listing_changed)

    def _wait(self, secs: float) -> bool:
        """Return whether something has come within that time."""
        return bool(self._selector.select(secs))

    def _wait_for_more(self) -> None:
        self._closing.wait(TOGETHER_SECS)

    def _noticed(self) -> tuple[set[str], bool]:
        """Return the runs that were written to, and whether other changes make a poll necessary."""
        names: set[str] = set()
        is_unclear = False
        for change in self._notices.changes() if self._notices is not None else ():
            if change.is_write and change.folder in self._runs and is_event_file(change.name):
                names.add(self._runs[change.folder])
            elif not change.is_write and (change.is_folder or not change.name or is_event_file(change.name)):
                is_unclear = True
        return names, is_unclear

    def _look(self) -> tuple[set[str], bool]:
        started = time.monotonic()
        listing_changed = self._logdir.refresh(self._roots)
        while self._watch_folders():  # find what came before the watch
            listing_changed |= self._logdir.refresh(self._roots)
        places = self._own_places()
        changed = {name for name, place in places.items() if self._places.get(name) != place}
        self._places = places
        self._runs = {
            folder: name
            for name, place in places.items()
            for folder in (place.path, place.path.rstrip("/") + SIDE_FOLDER)
        }
        took = time.monotonic() - started
        pause = SURE_SECS if self._is_noticed() else self._secs
        self._next_look = time.monotonic() + max(pause, took / MOST_SHARE)
        return changed, listing_changed

    def _own_places(self) -> dict[str, RunListing]:
        own = {name for root in self._roots for name in root.runs}
        return {name: place for name, place in self._logdir.runs.items() if name in own}

    def _watch_folders(self) -> bool:
        """Watch folders that are not watched yet; return whether there were any."""
        if self._notices is None:
            return False
        before = len(self._notices)
        for folder in self._folders():
            if folder not in self._notices:
                if len(self._notices) >= most_watches():
                    break
                try:
                    self._notices.add(folder)
                except FileNotFoundError:
                    continue
                except OSError:
                    # No watch is left, or the system refuses them. Polling finds the changes in all other
                    # folders.
                    break
        return len(self._notices) > before

    def _folders(self) -> list[str]:
        return [folder for root in self._roots for folder in root.folders]

    def _is_noticed(self) -> bool:
        """Return whether every folder is watched."""
        notices = self._notices
        is_complete = not any(root.complaint for root in self._roots)
        return notices is not None and is_complete and all(folder in notices for folder in self._folders())


def most_watches() -> int:
    """Return half of what the system allows this user, whose other programs need watches, too."""
    try:
        allowed = int(_LIMIT.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return MOST_WATCHES
    return min(MOST_WATCHES, allowed // 2)
