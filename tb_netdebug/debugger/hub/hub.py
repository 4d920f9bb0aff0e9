"""The sessions of all runs that can be debugged, in the process of TensorBoard.

The collector delivers frames by `take`, on its thread, and sends frames by its `send`. Clients come by HTTP,
each on a thread of its own. A thread of the hub renews leases and notices who has left; it runs only while
there is something to do. Everything that sessions report is bounded and checked (`statements.py`): the token
that they present does not prove good will.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from tb_netdebug.debugger.hub.calls import BUSY, GONE, LATE, REFUSED, UNKNOWN, Call, CallError
from tb_netdebug.debugger.hub.controls import Controls
from tb_netdebug.debugger.hub.entry import SessionEntry, key_of
from tb_netdebug.debugger.hub.statements import (
    ERROR_KINDS,
    MOST_LETTERS,
    StatementError,
    session_of,
    state_of,
    value_of,
)
from tb_netdebug.debugger.protocol.messages import Frame, FrameError, decoded, encoded
from tb_netdebug.debugger.protocol.statements import SessionJson, StateJson
from tb_netdebug.debugger.protocol.verbs import VERBS
from tb_netdebug.debugger.trainer.lease import LEASE_SECS

MOST_SESSIONS = 1000
MOST_CALLS = 64  # of one session, at the same time
# A state with a hundred watchpoints has 50 kB.
MOST_STATE_BYTES = 256 << 10
RENEW_SECS = 3.0
ANSWER_SECS = 10.0
# A session that is not connected may come back for this long.
KEPT_SECS = 60.0
# States of a session are passed on at this interval at most.
TELL_SECS = 0.05
CLOSE_SECS = 2.0

Row = dict[str, Any]


class NamedRun(Protocol):
    """A connected run.

    `run` is the collector's name for it, maybe with a suffix that the run does not know.
    """

    @property
    def key(self) -> str: ...

    @property
    def run(self) -> Sequence[str]: ...


class Channel(Protocol):
    """The way to the sessions: a collector."""

    def send(self, trainer_key: str, data: bytes) -> bool: ...

    def trainers(self) -> Sequence[NamedRun]: ...


class Sessions:
    """The sessions of all runs; every method is safe from any thread.

    `tell(key, row)` gets each new state, and None for a session that is gone. `named(run_dir)` returns a
    folder's name in the list of runs, if it is there.
    """

    def __init__(
        self, tell: Callable[[str, Row | None], None], *,
        named: Callable[[str], list[str] | None] = lambda run_dir: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._tell = tell
        self._named = named
        self._clock = clock
        self._news = threading.Condition(threading.RLock())  # guards everything below
        self._channel: Channel | None = None
        self._entries: dict[str, SessionEntry] = {}
        self._trainers: dict[str, SessionEntry] = {}
        self._controls = Controls()
        self._numbers = itertools.count(1)
        self._thread: threading.Thread | None = None
        self._is_closed = False

    # ---- called by the collector -------------------------------------------------------------------------

    def open(self, channel: Channel) -> None:
        """Set the channel; called before the first frame arrives."""
        self._channel = channel

    def take(self, trainer: str, data: bytes) -> None:
        """Take a frame from a trainer, by the collector's name for it. Malformed frames are dropped."""
        try:
            frame = decoded(data)
            with self._news:
                if not self._is_closed:
                    self._taken(trainer, frame, len(data))
        except (FrameError, StatementError):
            return

    def look(self) -> float | None:
        """Do what is due; return the seconds until something will be, or None if nothing is pending."""
        with self._news:
            now = self._clock()
            self._controls.sweep(now=now)
            self._remove_old(now)
            self._renew_leases(now)
            self._tell_late(now)
            due = self._next_due(now)
            return None if due is None else max(due - now, 0.0)

    def close(self) -> None:
        """Detach from all runs. May be called twice."""
        with self._news:
            self._is_closed = True
            for entry in self._entries.values():
                if entry.clients:
                    entry.clients = 0
                    self._lease(entry, 0)
                entry.forget_calls("TensorBoard is shutting down.")
            self._news.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECS)

    def lost(self) -> None:
        """Note that a trainer of the collector has gone."""
        with self._news:
            self._notice_lost(self._clock())
            self._rouse()

    # ---- called by clients -------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        with self._news:
            return [self._row(entry) for entry in self._entries.values()]

    def attend(
        self, client: str, label: str, keys: Collection[str], *, take: str | None = None,
        release: str | None = None,
    ) -> list[Row]:  # fmt: skip
        """Attend these sessions, and no others; return all rows. Raises CallError."""
        with self._news:
            trainings = {entry.training for key in keys if (entry := self._entries.get(key)) is not None}
            self._controls.attend(client, label, trainings, now=self._clock())
            if take is not None:
                self._controls.take(client, self._entry(take).training)
            if release is not None:
                self._controls.release(client, self._entry(release).training)
            self._after_visit(self._entries.values())
            return self.rows()

    def claim(self, client: str, key: str, *, steers: bool) -> list[SessionEntry]:
        """Return the session and the other connected ranks of its run; raise CallError if there is none.

        If the verb `steers`, the client holds the controls of the run afterwards.
        """
        with self._news:
            entry = self._entry(key)
            self._controls.drop_in(client, entry.training, now=self._clock())
            if steers:
                self._controls.claim(client, entry.training)
            ranks = [entry, *(each for each in self._connected(entry.training) if each is not entry)]
            self._after_visit(ranks)
            return ranks

    def ask(
        self, entry: SessionEntry, client: str, verb: str, arguments: Mapping[str, Any], *,
        ended: Callable[[Call], None] | None = None,
    ) -> Call:  # fmt: skip
        """Send a call, whose arguments have been checked, and return at once; raise CallError."""
        with self._news:
            if entry.trainer is None or self._is_closed:
                raise CallError(GONE, "The run is not connected at the moment.")
            if len(entry.calls) >= MOST_CALLS:
                raise CallError(BUSY, "The run is busy answering other requests. Try again.")
            call = Call(next(self._numbers), verb, ended)
            frame = encoded("call", id=call.number, client=client, verb=verb, arguments=arguments)
            entry.calls[call.number] = call
            if not self._send(entry, frame):
                self.forget(entry, call)
                raise CallError(BUSY, "The run accepts no requests at the moment. Try again.")
        return call

    def answer(self, entry: SessionEntry, call: Call, *, secs: float = ANSWER_SECS) -> Any:
        """Wait for a call and return its value; raise CallError."""
        try:
            if not call.wait(secs):
                raise CallError(LATE, "The run did not answer in time.")
            return call.result()
        finally:
            self.forget(entry, call)

    def forget(self, entry: SessionEntry, call: Call) -> None:
        """Drop a call that nobody waits for any more."""
        with self._news:
            entry.calls.pop(call.number, None)

    def state_of(self, entry: SessionEntry) -> StateJson:
        with self._news:
            return entry.state

    @property
    def clock(self) -> Callable[[], float]:
        return self._clock

    # ---- frames ------------------------------------------------------------------------------------------

    def _taken(self, trainer: str, frame: Frame, size: int) -> None:
        entry = self._trainers.get(trainer)
        if frame.type == "hello" and size <= 2 * MOST_STATE_BYTES:
            self._greeted(trainer, session_of(frame.head.get("session")), state_of(frame.head.get("state")))
        elif entry is None:
            return
        elif frame.type == "state" and size <= MOST_STATE_BYTES:
            entry.take_state(state_of(frame.head.get("state")), self._clock())
            self._tell_soon(entry)
        elif frame.type == "answer":
            self._answered(entry, frame)
        elif frame.type == "bye":
            self._remove(entry)

    def _greeted(self, trainer: str, session: SessionJson, state: StateJson) -> None:
        key = key_of(session)
        before = self._trainers.get(trainer)
        if before is not None and before.key != key:
            raise StatementError("it was somebody else before")
        here = self._here()
        if trainer not in here:
            raise StatementError("the collector has not accepted it")
        # Clients find the run under the name that it has in the list of runs.
        session["run"] = self._named(session["run_dir"]) or list(here[trainer].run)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= MOST_SESSIONS:
                raise StatementError("there are too many")
            entry = self._entries[key] = SessionEntry(key, trainer, session, state)
        else:
            self._trainers.pop(entry.trainer or "", None)
            entry.greet(trainer, session, state)
        self._trainers[trainer] = entry
        self._set_lease(entry)
        self._tell_now(entry)

    def _answered(self, entry: SessionEntry, frame: Frame) -> None:
        number = frame.head.get("id")
        call = entry.calls.pop(number, None) if isinstance(number, int) else None
        if call is None:
            return
        error, kind = frame.head.get("error"), frame.head.get("kind")
        if error is not None:
            sentence = error[:MOST_LETTERS] if isinstance(error, str) else "The run refused the request."
            call.fail(kind if kind in ERROR_KINDS else REFUSED, sentence)
            return
        try:
            value = value_of(call.verb, frame.head.get("value"))
        except StatementError:
            call.fail(REFUSED, "The run's answer has a format that this version does not know.")
            return
        if VERBS[call.verb].answer is StateJson:
            entry.take_state(value, self._clock())
        call.succeed(value, frame.attachment)

    # ---- sessions and trainers ---------------------------------------------------------------------------

    def _entry(self, key: str) -> SessionEntry:
        entry = self._entries.get(key)
        if entry is None:
            raise CallError(UNKNOWN, "This run is no longer available.")
        return entry

    def _connected(self, training: str) -> list[SessionEntry]:
        return [each for each in self._trainers.values() if each.training == training]

    def _here(self) -> dict[str, NamedRun]:
        return {} if self._channel is None else {each.key: each for each in self._channel.trainers()}

    def _after_visit(self, entries: Iterable[SessionEntry]) -> None:
        """Update the leases of these sessions and publish their rows; the receiver drops unchanged ones."""
        for entry in entries:
            self._set_lease(entry)
            self._tell(entry.key, self._row(entry))
        self._rouse()

    def _notice_lost(self, now: float) -> None:
        for trainer in self._trainers.keys() - self._here():
            entry = self._trainers.pop(trainer)
            entry.lose(now)
            self._tell_now(entry)

    def _remove_old(self, now: float) -> None:
        for entry in list(self._entries.values()):
            if not entry.is_connected and now >= entry.lost_at + KEPT_SECS:
                self._remove(entry)

    def _remove(self, entry: SessionEntry) -> None:
        self._trainers.pop(entry.trainer or "", None)
        del self._entries[entry.key]
        entry.forget_calls("The run is over.")
        self._tell(entry.key, None)

    # ---- leases ------------------------------------------------------------------------------------------

    def _renew_leases(self, now: float) -> None:
        for entry in self._trainers.values():
            self._set_lease(entry)
            if entry.clients and now >= entry.leased_at + RENEW_SECS:
                self._lease(entry, entry.clients)

    def _set_lease(self, entry: SessionEntry) -> None:
        clients = self._controls.count(entry.training) if entry.is_connected else 0
        if clients != entry.clients:
            entry.clients = clients
            self._lease(entry, clients)
            self._tell_now(entry)

    def _lease(self, entry: SessionEntry, clients: int) -> None:
        entry.leased_at = self._clock()
        self._send(entry, encoded("lease", clients=clients, secs=LEASE_SECS))

    def _send(self, entry: SessionEntry, frame: bytes) -> bool:
        return (
            self._channel is not None
            and entry.trainer is not None
            and self._channel.send(entry.trainer, frame)
        )

    # ---- publishing --------------------------------------------------------------------------------------

    def _row(self, entry: SessionEntry) -> Row:
        holder = self._controls.holder(entry.training)
        return {
            "key": entry.key,
            "session": entry.session,
            "state": entry.state,
            "holder": None if holder is None else {"client": holder.name, "label": holder.label},
            "clients": entry.clients,
            "is_connected": entry.is_connected,
        }

    def _tell_soon(self, entry: SessionEntry) -> None:
        """Publish a state now, or once enough time has passed since the last one."""
        if self._clock() >= entry.told_at + TELL_SECS:
            self._tell_now(entry)
        else:
            entry.is_untold = True
            self._rouse()

    def _tell_now(self, entry: SessionEntry) -> None:
        entry.told_at, entry.is_untold = self._clock(), False
        self._tell(entry.key, self._row(entry))

    def _tell_late(self, now: float) -> None:
        for entry in self._entries.values():
            if entry.is_untold and now >= entry.told_at + TELL_SECS:
                self._tell_now(entry)

    # ---- the thread --------------------------------------------------------------------------------------

    def _next_due(self, now: float) -> float | None:
        dues = [entry.told_at + TELL_SECS for entry in self._entries.values() if entry.is_untold]
        dues += [entry.lost_at + KEPT_SECS for entry in self._entries.values() if not entry.is_connected]
        dues += [each.leased_at + RENEW_SECS for each in self._trainers.values() if each.clients]
        departure = self._controls.next_departure()
        return min(dues if departure is None else [*dues, departure], default=None)

    def _rouse(self) -> None:
        """Wake or start the thread: something may be due earlier than it knows."""
        if self._thread is None and not self._is_closed and self._next_due(self._clock()) is not None:
            self._thread = threading.Thread(target=self._keep, name="netdebug-sessions", daemon=True)
            self._thread.start()
        self._news.notify_all()

    def _keep(self) -> None:
        with self._news:
            while not self._is_closed:
                secs = self.look()
                if secs is None:
                    break
                self._news.wait(secs)
            self._thread = None
