"""The trainer's connection to the debugger's hub.

It uses the link that carries the run's records when that leads to the same collector, else a link of its own
that sends no records.

Without an address it connects to the TensorBoard of this machine as soon as there is one, also when that is
started later, or again on another port. Until then it costs a look into a folder every few seconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tb_netdebug.transport import discovery
from tb_netdebug.transport.addresses import LOOPBACK, Address, address_of
from tb_netdebug.transport.discovery import FoundCollector
from tb_netdebug.transport.link import Link

LOOK_SECS = 3.0
CLOSE_SECS = 5.0


@dataclass(frozen=True, slots=True)
class ControlClient:
    """The debugger's end in the trainer.

    `on_control` receives the peer's messages; `on_connected` is called whenever a peer starts listening. Both
    run on a thread of the link.
    """

    run_dir: Path
    run: Sequence[str]
    rank: int
    notice: Callable[[str], None]
    on_control: Callable[[bytes], None]
    on_connected: Callable[[], None]

    def link_to(self, remote: str) -> Link:
        """Return a link for the debugger alone, not yet begun.

        A peer that is connected may answer at once, so the callbacks have to be in place by then.
        """
        link = Link.prepare(
            remote=remote,
            run_dir=self.run_dir,
            run=self.run,
            rank=self.rank,
            is_spool=False,
            takes_control=True,
            records_stay=True,
            notice=self.notice,
        )
        link.attach(self.on_control, self.on_connected)
        return link


class ControlLine:
    """The debugger's connection of one recording.

    It never raises into the training loop and never blocks it. In forked children it is closed.
    """

    def __init__(self, caller: ControlClient, link: Link | None, *, is_own: bool) -> None:
        self._caller = caller
        self._link = link
        self._is_own = is_own
        self._found: FoundCollector | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()

    @classmethod
    def start(
        cls, target: str | None, *, run_dir: Path, run: Sequence[str], rank: int,
        notice: Callable[[str], None], on_control: Callable[[bytes], None],
        on_connected: Callable[[], None], link: Link | None = None,
    ) -> ControlLine:  # fmt: skip
        """Connect to the debugger at `target` ("host:port") and return the line.

        Without a target that is where `link` leads, or without a link the TensorBoard of this machine. `link`
        carries the records of this run; it serves the debugger, too, unless `target` is elsewhere. Raise
        OSError or RuntimeError when no thread can be started.
        """
        caller = ControlClient(run_dir, run, rank, notice, on_control, on_connected)
        if link is not None and (target is None or is_same(target, link.remote)):
            line = cls(caller, link, is_own=False)
            link.attach(on_control, on_connected)
        elif target is not None:
            link = caller.link_to(target)
            line = cls(caller, link, is_own=True)
            link.begin()
        else:
            line = cls(caller, None, is_own=True)
            line._search()
        return line

    def send(self, data: bytes) -> bool:
        """Send bytes to the hub, at most once; return whether they were accepted."""
        link = self._link
        return link is not None and link.send(data)

    def close(self) -> None:
        """Close the line at once; what was sent before still goes out."""
        if self._pid != os.getpid() or self._closing.is_set():
            return
        self._closing.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECS)
        if self._is_own:
            self._hang_up()

    # ---- the TensorBoard of this machine -------------------------------------------------------------------

    def _search(self) -> None:
        self._thread = threading.Thread(target=self._run, name="netdebug-control-line", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        complaint = ""
        while True:
            try:
                self._look()
            except (OSError, RuntimeError) as error:
                if str(error) != complaint:  # not again at every look
                    self._caller.notice(f"the debugger cannot be reached yet: {error}. The training goes on.")
                complaint = str(error)
            if self._closing.wait(LOOK_SECS):
                return

    def _look(self) -> None:
        # Until `_found` is set, a failed `begin` is tried again at the next look.
        best = best_of(discovery.collectors(), self._caller.run_dir, now=self._found)
        if best == self._found:
            return
        self._hang_up()
        self._found = None
        if best is not None and not self._closing.is_set():
            self._link = self._caller.link_to(f"{LOOPBACK}:{best.port}")
            self._link.begin()
            self._found = best

    def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()


def best_of(
    living: Sequence[FoundCollector], run_dir: Path, *, now: FoundCollector | None
) -> FoundCollector | None:
    """Return the collector to connect to: the newest whose logdir holds the run, else the newest.

    The current one stays as long as none is better.
    """
    able = [each for each in living if each.debugs]
    with_run = [each for each in able if run_dir.absolute().is_relative_to(each.logdir)]
    best = with_run or able
    return now if now in best else next(iter(best), None)


def is_same(target: str, remote: str) -> bool:
    """Return whether two addresses lead to the same collector."""
    with suppress(ValueError):
        one, other = address_of(target), address_of(remote)
        return one.port == other.port and _place(one) == _place(other)
    return target == remote


def _place(address: Address) -> str:
    return LOOPBACK if address.is_loopback else address.host.lower()
