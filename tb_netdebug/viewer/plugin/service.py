"""The objects that the routes work with: the logdir, its reader, the streams. Made by the first request."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.debugger.hub.hub import Sessions
from tb_netdebug.viewer.plugin.collecting import Collecting
from tb_netdebug.viewer.plugin.control import Control
from tb_netdebug.viewer.plugin.event_stream import MOST_STREAMS
from tb_netdebug.viewer.plugin.live import Hub, Seats
from tb_netdebug.viewer.plugin.page import StaticFile, load
from tb_netdebug.viewer.plugin.reading import LogdirReader
from tb_netdebug.viewer.plugin.roots import Root, described, names_of
from tb_netdebug.viewer.plugin.verdicts import Verdicts
from tb_netdebug.viewer.plugin.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
    from tb_netdebug.viewer.plugin.flags import ServerFlags

NO_LOGDIR = "TensorBoard was started without --logdir, so there are no runs to show."
# How many queries compute at once; each of them slows the streams a little.
MOST_AT_WORK = 2
MOST_DOWNLOADS = 4
# How many big answers may wait in memory for slow clients.
MOST_BIG_ANSWERS = 16
LIST_TIMEOUT_SECS = 3.0
GOODBYE_SECS = 1.0


class Service:
    """Everything that the routes work with; owned by `application.Application`."""

    def __init__(self, roots: Sequence[Root], flags: ServerFlags) -> None:
        self.logdir_text = described(list(roots))
        self.files: dict[str, StaticFile] = load()
        self.hub = Hub()
        self.seats = Seats(MOST_STREAMS)
        self.workers = Workers(MOST_AT_WORK)
        self.sessions = Sessions(self.hub.set_session, named=lambda run_dir: names_of(roots, run_dir))
        self.downloads = Seats(MOST_DOWNLOADS)
        self.big_answers = Seats(MOST_BIG_ANSWERS)
        self.collecting = Collecting(roots, flags, self.hub.tell_list, self.sessions)
        self.control = Control.of(flags)
        self._verdicts = Verdicts(self.workers, self._retell)
        self._complaints = [] if roots else [NO_LOGDIR]
        self._logdir = LogDir(list(roots))
        self._reading = LogdirReader(self._logdir, self.hub, described=self._described)
        # End the streams properly when TensorBoard exits, which merely kills its own threads.
        atexit.register(self.close)

    def attend(self) -> None:
        """Start reading the logdir, or keep it going: a page is open."""
        self._reading.attend()
        self.collecting.start()

    def runs(self) -> dict[str, object]:
        """Return the list of runs for the page; wait for the first scan of the logdir, but not for ever."""
        self.attend()
        complete = self._reading.wait_for_list(timeout=LIST_TIMEOUT_SECS)
        version, rows = self.hub.rows()
        return {
            "epoch": self.hub.epoch,
            "version": version,
            "logdir": self.logdir_text,
            "complete": complete,
            "complaints": [*self._complaints, *self._logdir.complaints, *self.collecting.complaints],
            "collector": self.collecting.as_dict(),
            "runs": rows,
        }

    def run(self, name: str) -> FollowedRun:
        """Return a run that has been read at least once. Raises KeyError if there is none of that name."""
        self.attend()
        self._reading.wait_for_list(timeout=LIST_TIMEOUT_SECS)
        return self._reading.read(name)

    def details(self, name: str) -> dict[str, object] | None:
        """Return everything about a run but its numbers; None if there is no such run."""
        try:
            run = self.run(name)
        except KeyError:
            return None
        return self._verdicts.added(run, run.details())

    def _described(self, run: FollowedRun) -> dict[str, object]:
        return self._verdicts.known(run, run.details())

    def _retell(self, folder: str) -> None:
        self._reading.retell(folder)

    def close(self) -> None:
        atexit.unregister(self.close)
        self.sessions.close()  # first of all: paused training runs wait for us
        self.hub.close()
        # Python is about to stop the threads that write to the clients: let them end their streams first.
        self.seats.clear(timeout=GOODBYE_SECS)
        self._verdicts.close()
        self.workers.close()
        self._reading.close()
        self._logdir.close()
        self.collecting.close()
