"""The trainer's way to the debugger's other end: by the link that takes its records there anyway, or else by
one of its own, which sends no records.

Without an address, the TensorBoard of this machine is meant, whenever there is one: also one that is
started later, or again at another port. Until then nothing runs but a look at a folder every few seconds.
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
    """Who is at this end. `on_control` gets what the other end says, and `on_connected` is called whenever
    another one begins to hear; both on a thread of ours."""

    run_dir: Path
    run: Sequence[str]
    rank: int
    notice: Callable[[str], None]
    on_control: Callable[[bytes], None]
    on_connected: Callable[[], None]

    def link_to(self, remote: str) -> Link:
        """One of its own, which is still to begin: whoever is connected answers at once, and has to have it
        by then."""
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
    """Never raises into the training and never makes it wait. In forked children it is closed."""

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
        """`target` is "host:port". `link` is the one that takes the records of this training somewhere: it
        serves for the debugger, too, unless that is elsewhere. Raises OSError or RuntimeError when there is
        no room for a thread."""
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
        """Whether it was taken. It arrives at most once."""
        link = self._link
        return link is not None and link.send(data)

    def close(self) -> None:
        """At once; what was sent before still goes out."""
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
                if str(error) != complaint:
                    self._caller.notice(f"the debugger cannot be reached yet: {error}. The training goes on.")
                complaint = str(error)
            if self._closing.wait(LOOK_SECS):
                return

    def _look(self) -> None:
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
    """The newest in whose logdir the run is, else the newest; one that is as good as any stays."""
    able = [each for each in living if each.debugs]
    with_run = [each for each in able if run_dir.absolute().is_relative_to(each.logdir)]
    best = with_run or able
    return now if now in best else next(iter(best), None)


def is_same(target: str, remote: str) -> bool:
    """Whether two addresses lead to one collector."""
    with suppress(ValueError):
        one, other = address_of(target), address_of(remote)
        return one.port == other.port and _place(one) == _place(other)
    return target == remote


def _place(address: Address) -> str:
    return LOOPBACK if address.is_loopback else address.host.lower()
