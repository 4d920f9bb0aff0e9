"""Keeps the hub up to date with the files of a logdir.

The follower reports which runs have changed. One thread reads what is new in runs that were read before.
Another reads the others for the first time, the newest first, so that a big old run does not delay a live
one. While no client is there, nothing is read.
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

# The least time between two reads of a run; also, reading takes at most a quarter of the time.
PAUSE_SECS = 0.1
REST_PER_WORK = 3.0
# The longest pause: a read that was slow because the whole machine was busy says nothing about the next one.
LONGEST_REST_SECS = 5.0
AGAIN_SECS = 5.0
# Without a request or a stream for this long, no page is open any more.
REST_AFTER_SECS = 30.0


def details_of(run: FollowedRun) -> dict[str, Any]:
    return run.details()


class LogdirReader:
    """Reads runs on threads of its own, from the first call of `attend` on."""

    def __init__(
        self, logdir: LogDir, hub: Hub, *, described: Callable[[FollowedRun], dict[str, Any]] = details_of
    ) -> None:
        """Keep the arguments; `described` returns the details that the row of a run is made from."""
        self._logdir = logdir
        self._hub = hub
        self._described = described
        self._news = threading.Condition()  # guards everything below
        self._runs: dict[str, FollowedRun] = {}
        self._places: Mapping[str, RunListing] | None = None  # the listing that `_runs` was made from
        self._unread: list[str] = []  # newest last
        self._rested: dict[str, float] = {}  # when each run that was read may be read again
        # When each run with news is to be read, on the monotonic clock.
        self._due: dict[str, float] = {}
        self._threads: list[threading.Thread] = []
        self._attended = -math.inf
        self._is_listed = False
        self._is_closed = False

    def attend(self) -> None:
        """Read, and go on reading for a while: a client has asked for something."""
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
        """Wait for the list of runs to be kept up to date; return whether it is."""
        with self._news:
            return self._news.wait_for(lambda: self._is_closed or self._is_listed, timeout)

    def read(self, name: str) -> FollowedRun:
        """Return a run that has been read at least once. Raises KeyError if there is none of this name."""
        with self._news:
            run, is_read = self._runs.get(name), name in self._rested
        if run is None:
            run = self._logdir.open(name)
        if not is_read:
            self._look(name, run)
        return run

    def retell(self, folder: str) -> None:
        """Send the row of the run in this folder anew: its verdict has changed, say, and not its files."""
        with self._news:
            runs = [(name, run) for name, run in self._runs.items() if run.path == folder]
        for name, run in runs:
            row = self._hub.row(name)
            if row is not None and row.get("version") is not None:
                self._looked(name, run, read_row(self._described(run)), took=0.0)

    def close(self) -> None:
        """Stop the threads; a read that has begun is finished first."""
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _persist(self, work: Callable[[], None]) -> None:
        """Run `work` again after an exception, so that a bug does not leave the page frozen for ever."""
        while not self._is_closed:
            try:
                work()
            except Exception:
                logger.exception("NetDebug could not follow the logdir; it tries again.")
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
                # A run that is being read for the first time stays due, and is read once more afterwards.
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
        """Schedule the runs that the follower reports, on its thread."""
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
            except KeyError:  # it was deleted meanwhile
                continue
        for name, run in self._runs.items():
            if runs.get(name) is not run:  # deleted or replaced
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
        # The list goes to every client, so it is sent only if runs came, went or were replaced.
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
        """Read what is new in a run, and update the hub."""
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
            # Deleted or replaced while it was being read.
            if self._runs.get(name) is not run:
                return
            self._rested[name] = now + min(max(PAUSE_SECS, REST_PER_WORK * took), LONGEST_REST_SECS)
            # Of two reads at the same time the one that saw less may end last.
            if row is not None and _version(row) >= _version(self._hub.row(name)):
                self._hub.set_row(name, row)
                if may_change(row):
                    # By then a run that writes nothing more is not live any more, which its row has to show.
                    self._due.setdefault(name, now + LIVE_SECS + PAUSE_SECS)
            self._news.notify_all()


def told(error: Exception) -> str:
    """Return the error with its traceback, made safe for a terminal: it may quote what is in the run."""
    return visible_lines("".join(traceback.format_exception(error)).rstrip())


def _version(row: Row | None) -> int:
    version = row["version"] if row else None
    return version if isinstance(version, int) else 0
