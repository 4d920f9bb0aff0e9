"""Keeps the hub up to date with the files of a logdir.

Two threads for the whole process: one looks again and again at the runs that were read, one reads the
others for the first time, the newest first, so that a big old run delays no live one. Both rest while nobody
listens.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tb_netdebug.plugin.live import Hub, Row
from tb_netdebug.plugin.rows import failed_row, read_row, unread_row
from tb_netdebug.plugin.schedule import Schedule

if TYPE_CHECKING:
    from tb_netdebug.reader.followed_run import FollowedRun
    from tb_netdebug.reader.logdir import LogDir

logger = logging.getLogger(__name__)

LIST_SECS = 1.0
# Looking for runs takes at most a twentieth of the time.
REST_PER_LIST = 19.0
# Nobody asked and nobody listened for so long: there is no page left.
REST_AFTER_SECS = 30.0
# Older than that, the list is not handed out without another look.
STALE_SECS = 5.0


class Follower:
    """Starts with the first call of `attend`."""

    def __init__(self, logdir: LogDir, hub: Hub) -> None:
        self._logdir = logdir
        self._hub = hub
        self._news = threading.Condition()  # guards everything below
        self._schedule = Schedule()
        self._unread: list[str] = []  # the newest last
        self._runs: dict[str, FollowedRun] = {}
        self._threads: list[threading.Thread] = []
        self._attended = 0.0
        self._listed = -float("inf")
        self._next_list = 0.0
        self._closed = False

    def attend(self) -> None:
        """Somebody is interested now, and for a while."""
        with self._news:
            self._attended = time.monotonic()
            if not self._threads and not self._closed:
                for work, name in ((self._follow, "follower"), (self._read_first, "first-reads")):
                    thread = threading.Thread(target=work, name=f"netdebug-{name}", daemon=True)
                    self._threads.append(thread)
                    thread.start()
            self._news.notify_all()

    def wait_for_list(self, *, timeout: float) -> bool:
        """Whether the list of runs is not stale, after waiting for it."""
        fresh = time.monotonic() - STALE_SECS
        with self._news:
            return self._news.wait_for(lambda: self._closed or self._listed >= fresh, timeout)

    def read(self, name: str) -> FollowedRun:
        """A run that has been read at least once. Raises KeyError when there is none of this name."""
        with self._news:
            run, unread = self._runs.get(name), name not in self._schedule
        if run is None:
            run = self._logdir.open(name)
        if unread:
            self._look(name, run)
        return run

    def close(self) -> None:
        """Ends both threads; a read that is going on is finished first."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        for thread in self._threads:
            thread.join(timeout=2.0)

    # --- looking again ---------------------------------------------------------------------------------

    def _follow(self) -> None:
        while self._rest_until(self._follow_due):
            now = time.monotonic()
            if now >= self._next_list:
                self._list()
            with self._news:
                due = [(name, self._runs[name]) for name in self._schedule.due(now)]
            for name, run in due:
                self._look(name, run)

    def _follow_due(self) -> float:
        due = self._schedule.next_due()
        return self._next_list if due is None else min(due, self._next_list)

    def _rest_until(self, due: Callable[[], float]) -> bool:
        """Waits for work and for somebody to be interested in it; False at the end."""
        with self._news:
            while not self._closed:
                now = time.monotonic()
                if now - max(self._attended, self._hub.heard) > REST_AFTER_SECS:
                    self._news.wait()
                elif due() <= now:
                    return True
                else:
                    self._news.wait(min(due() - now, REST_AFTER_SECS))
            return False

    def _list(self) -> None:
        started = time.monotonic()
        try:
            changed = self._logdir.refresh()
        except Exception:
            logger.exception("NetDebug could not look for runs.")
            changed = False
        took = time.monotonic() - started
        with self._news:
            if changed or not self._runs:
                self._take_list()
            self._listed = started
            self._next_list = time.monotonic() + max(LIST_SECS, REST_PER_LIST * took)
            self._news.notify_all()

    def _take_list(self) -> None:
        places = dict(self._logdir.runs)
        known, self._runs = self._runs, {}
        rows: dict[str, Row] = {}
        for name, place in places.items():
            try:
                self._runs[name] = self._logdir.open(name)
            except KeyError:  # it went away again
                continue
            if self._runs[name] is not known.get(name):
                self._schedule.remove(name)
            known_row = self._hub.row(name) if name in self._schedule else None
            rows[name] = known_row or unread_row(place)
        for name in known.keys() - self._runs.keys():
            self._schedule.remove(name)
        waiting = [name for name in self._runs if name not in self._schedule]
        self._unread = sorted(waiting, key=lambda name: places[name].changed)
        if rows.keys() != {row["name"] for row in self._hub.rows()[1]} or waiting:
            self._hub.set_list(rows)

    # --- looking for the first time --------------------------------------------------------------------

    def _read_first(self) -> None:
        while self._rest_until(lambda: 0.0 if self._unread else float("inf")):
            with self._news:
                if not self._unread:
                    continue
                name = self._unread.pop()
                run = self._runs.get(name)
                if run is None or name in self._schedule:
                    continue
            self._look(name, run)

    # --- one look --------------------------------------------------------------------------------------

    def _look(self, name: str, run: FollowedRun) -> None:
        """Reads what is new of a run, and tells the hub."""
        started = time.monotonic()
        changed = False
        place = self._logdir.runs.get(name)
        if place is None:
            return
        try:
            changed = run.refresh()
            row: Row = read_row(place, run.details(), version=run.version)
        except Exception as error:
            row = failed_row(place, str(error) or type(error).__name__)
            if (self._hub.row(name) or {}).get("complaint") != row["complaint"]:
                logger.warning("NetDebug cannot read the run %r: %s", name, error, exc_info=True)
        now = time.monotonic()
        with self._news:
            if self._runs.get(name) is not run:
                return
            if name not in self._schedule:
                self._schedule.add(name, changed=now - max(time.time() - place.changed, 0.0), now=now)
            self._schedule.looked(name, changed=changed, took=now - started, now=now)
            self._news.notify_all()
        self._hub.set_row(name, row)
