"""Keeps the hub up to date with the files of a logdir.

The reader's follower says which runs have changed. One thread reads what is new of runs that were read
before; another reads the others for the first time, the newest first, so that a big old run delays no live
one. While nobody is interested, all of it rests.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from tb_netdebug.core.eventlog.reader.follower import Follower
from tb_netdebug.core.eventlog.reader.pulse import LIVE_SECS
from tb_netdebug.core.records.visible import visible_lines
from tb_netdebug.viewer.plugin.live import Hub, Row
from tb_netdebug.viewer.plugin.rows import failed_row, may_change, read_row, unread_row
from tb_netdebug.viewer.plugin.turns import short_turns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
    from tb_netdebug.core.eventlog.reader.logdir import LogDir, RunListing

logger = logging.getLogger(__name__)

# A run has news at most so often, and reading it takes at most a quarter of the time.
PAUSE_SECS = 0.1
REST_PER_WORK = 3.0
# A read that took long because the whole machine stood still says nothing of the next one.
LONGEST_REST_SECS = 5.0
AGAIN_SECS = 5.0
# Nobody asked and nobody listened for so long: there is no page left.
REST_AFTER_SECS = 30.0


def details_of(run: FollowedRun) -> dict[str, Any]:
    return run.details()


class LogdirReader:
    """Starts with the first call of `attend`."""

    def __init__(
        self, logdir: LogDir, hub: Hub, *, described: Callable[[FollowedRun], dict[str, Any]] = details_of
    ) -> None:
        """`described` makes the details of a run that its row is made of."""
        self._logdir = logdir
        self._hub = hub
        self._described = described
        self._news = threading.Condition()  # guards everything below
        self._runs: dict[str, FollowedRun] = {}
        self._places: Mapping[str, RunListing] | None = None  # of which the runs are
        self._unread: list[str] = []  # the newest last
        self._rested: dict[str, float] = {}  # of each run that was read, when it may be looked at again
        self._due: dict[str, float] = {}
        self._threads: list[threading.Thread] = []
        self._attended = -math.inf
        self._is_listed = False
        self._is_closed = False

    def attend(self) -> None:
        """Somebody is interested now, and for a while."""
        with self._news:
            self._attended = time.monotonic()
            if not self._threads and not self._is_closed:
                for work, name in ((self._keep_up, "reader"), (self._catch_up, "first-reads")):
                    thread = threading.Thread(
                        target=self._persist, args=(work,), name=f"netdebug-{name}", daemon=True
                    )
                    self._threads.append(thread)
                    thread.start()
            self._news.notify_all()

    def wait_for_list(self, *, timeout: float) -> bool:
        """Whether the list of runs is kept up to date, after waiting for it."""
        with self._news:
            return self._news.wait_for(lambda: self._is_closed or self._is_listed, timeout)

    def read(self, name: str) -> FollowedRun:
        """A run that has been read at least once. Raises KeyError when there is none of this name."""
        with self._news:
            run, is_read = self._runs.get(name), name in self._rested
        if run is None:
            run = self._logdir.open(name)
        if not is_read:
            self._look(name, run)
        return run

    def retell(self, folder: str) -> None:
        """Something else than its files has changed what there is to say of the run in this folder."""
        with self._news:
            runs = [(name, run) for name, run in self._runs.items() if run.path == folder]
        for name, run in runs:
            row = self._hub.row(name)
            if row is not None and row.get("version") is not None:
                self._looked(name, run, read_row(self._described(run)), took=0.0)

    def close(self) -> None:
        """Ends the threads; a read that is going on is finished first."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _persist(self, work: Callable[[], None]) -> None:
        """A mistake must not leave a page that stands still for ever."""
        while not self._is_closed:
            try:
                work()
            except Exception:
                logger.exception("NetDebug could not follow the logdir, and tries again.")
                with self._news:
                    self._news.wait_for(lambda: self._is_closed, timeout=AGAIN_SECS)

    def _is_wanted(self) -> bool:
        return time.monotonic() - max(self._attended, self._hub.heard) < REST_AFTER_SECS

    # ---- runs that were read before

    def _keep_up(self) -> None:
        while self._wait_until_wanted():
            self._logdir.refresh()
            self._take_list()
            follower = Follower(self._logdir, self._take_changes)
            follower.start()
            try:
                self._read_changes()
            finally:
                follower.close()

    def _wait_until_wanted(self) -> bool:
        with self._news:
            self._is_listed = False
            self._news.wait_for(lambda: self._is_closed or self._is_wanted())
            return not self._is_closed

    def _read_changes(self) -> None:
        while True:
            with self._news:
                self._news.wait(self._secs_until_due())
                if self._is_closed or not self._is_wanted():
                    return
                now = time.monotonic()
                # One that is read for the first time just now is looked at once more afterwards.
                names = [name for name, at in self._due.items() if at <= now and name in self._rested]
                for name in names:
                    del self._due[name]
                runs = [(name, self._runs[name]) for name in names]
            for name, run in runs:
                self._look(name, run)

    def _secs_until_due(self) -> float:
        now = time.monotonic()
        times = [at - now for name, at in self._due.items() if name in self._rested]
        return max(min([*times, 1.0]), 0.0)

    def _take_changes(self, names: set[str], listing_changed: bool) -> None:
        """What the follower has found out, on its own thread."""
        if listing_changed:
            self._take_list()
        now = time.monotonic()
        with self._news:
            for name in names & self._runs.keys():
                self._due[name] = max(now, self._rested.get(name, now))
            self._news.notify_all()

    def _take_list(self) -> None:
        with self._news:
            places = self._logdir.runs
            if places is not self._places:
                self._places = places
                self._take_runs(places)
            self._is_listed = True
            self._news.notify_all()

    def _take_runs(self, places: Mapping[str, RunListing]) -> None:
        runs: dict[str, FollowedRun] = {}
        for name in places:
            try:
                runs[name] = self._logdir.open(name)
            except KeyError:  # it went away again
                continue
        for name, run in self._runs.items():
            if runs.get(name) is not run:  # it has gone, or another one has come in its place
                self._rested.pop(name, None)
                self._due.pop(name, None)
        unread = [name for name in runs if name not in self._rested]
        self._unread = sorted(unread, key=lambda name: places[name].changed)
        rows = {
            name: (self._hub.row(name) if name in self._rested else None) or unread_row(places[name])
            for name in runs
        }
        is_same = self._runs == runs
        self._runs = runs
        if not is_same:
            self._hub.set_list(rows)

    # ---- runs that were not

    def _catch_up(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._is_closed or (self._unread and self._is_wanted()))
                if self._is_closed:
                    return
                name = self._unread.pop()
                run = self._runs.get(name)
                if run is None or name in self._rested:
                    continue
            with short_turns():
                self._look(name, run)

    # ---- one look

    def _look(self, name: str, run: FollowedRun) -> None:
        """Reads what is new of a run, and tells the hub."""
        started = time.monotonic()
        before = self._hub.row(name) or {}
        row: Row | None = None
        try:
            if run.refresh() or may_change(before):
                row = read_row(self._described(run))
        except Exception as error:
            row = failed_row(before, str(error) or type(error).__name__)
            if before.get("complaint") != row["complaint"]:
                logger.warning("NetDebug cannot read the run %r: %s", name, told(error))
        self._looked(name, run, row, took=time.monotonic() - started)

    def _looked(self, name: str, run: FollowedRun, row: Row | None, *, took: float) -> None:
        now = time.monotonic()
        with self._news:
            if self._runs.get(name) is not run:
                return
            self._rested[name] = now + min(max(PAUSE_SECS, REST_PER_WORK * took), LONGEST_REST_SECS)
            # Of two looks at the same time the one that saw less may end last.
            if row is not None and _version(row) >= _version(self._hub.row(name)):
                self._hub.set_row(name, row)
                if may_change(row):
                    self._due.setdefault(name, now + LIVE_SECS + PAUSE_SECS)
            self._news.notify_all()


def told(error: Exception) -> str:
    """The error with its traceback, for a terminal: it may quote what is in the run."""
    return visible_lines("".join(traceback.format_exception(error)).rstrip())


def _version(row: Row | None) -> int:
    version = row["version"] if row else None
    return version if isinstance(version, int) else 0
