"""The main loop of an agent: accepts trainers, follows their files and keeps the uplink open."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.addresses import address_of
from tb_netdebug.transport.agent_paths import AgentPaths
from tb_netdebug.transport.bulletin import Bulletin
from tb_netdebug.transport.local_wire import Unpacker, WireError, is_own
from tb_netdebug.transport.notes import Note, notes_in
from tb_netdebug.transport.process import is_alive
from tb_netdebug.transport.roster import Roster
from tb_netdebug.transport.trainee import MOST_CONTROL_BYTES, Trainee
from tb_netdebug.transport.uplink import Uplink

TICK_SECS = 0.05
# Notes of dead trainers and messages to people can wait longer than records.
SLOW_TICK_SECS = 1.0
# When all trainers came for the debugger alone: there are no files to poll, and messages are read at once.
IDLE_TICK_SECS = 0.5
# How long to stay without trainers: scripts often start one run after another.
LINGER_SECS = 1.5
# How long to wait for a collector that takes nothing, once the trainers have left. The unsent rest waits in
# notes for the next agent.
PATIENCE_SECS = 600.0
# The same when the collector refuses: an agent started with other credentials may be let in.
REFUSED_SECS = 20.0
# The same after SIGTERM: a cluster that ends a job soon sends SIGKILL.
LEAVING_SECS = 25.0
_READ_BYTES = 1 << 16


class AgentLoop:
    """All that one agent does, on one event loop: `run` returns when there is nothing left to do."""

    def __init__(self, meeting: AgentPaths) -> None:
        self._meeting = meeting
        self._roster = Roster()
        self._bulletin = Bulletin(meeting.target)
        self._uplink = Uplink(address_of(meeting.target), self._roster, self._bulletin)
        self._slow_tick_due = 0.0
        self._idle_since: float | None = None
        self._progress = (0, time.monotonic())
        self._patience_secs = float(os.environ.get("NETDEBUG_PATIENCE_SECS") or PATIENCE_SECS)

    async def run(self, *, ready: Callable[[], None]) -> None:
        """Serve trainers until all is sent or given up; call `ready` once they can connect."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._hurry)
        # A killed agent leaves its socket behind. This one holds the lock, so nothing listens there.
        self._meeting.socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._hear, self._meeting.socket)
        ready()
        sending = asyncio.ensure_future(self._uplink.run())
        try:
            # The uplink ends only by an unexpected error, which ends the agent.
            while not self._is_over() and not sending.done():
                self._tick()
                await asyncio.sleep(TICK_SECS if self._roster.has_records else IDLE_TICK_SECS)
        finally:
            self._meeting.socket.unlink(missing_ok=True)
            server.close()
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            self._roster.close()

    # ---- the periodic work -------------------------------------------------------------------------------

    def _tick(self) -> None:
        now = time.monotonic()
        self._roster.look(now)
        for trainee in self._roster.all():
            if trainee.owes_answer:
                self._answer(trainee, now)
        if now >= self._slow_tick_due:
            self._slow_tick_due = now + SLOW_TICK_SECS
            self._adopt()
            self._bulletin.tell(self._roster.all(), now)

    def _answer(self, trainee: Trainee, now: float) -> None:
        if trainee.is_delivered or self._roster.is_at_home(trainee):
            trainee.answer(delivered=True)
        elif not self._bulletin.is_hopeful:
            self._bulletin.tell_one(trainee, now, at_once=True)
            trainee.answer(delivered=False)

    def _adopt(self) -> None:
        """Take over recordings whose trainers cannot connect any more: they are gone, or have said goodbye.

        Their notes say what is still to be sent.
        """
        for note in notes_in(self._meeting.notes):
            if self._roster.of_note(note) is not None:
                continue
            join, goodbye = note.read(), note.goodbye
            if join is not None and goodbye is None and is_alive(join.pid, join.started):
                continue  # it will connect by itself
            if note.hold():
                if join is None or not Path(join.run_dir).is_dir():  # never complete, or deleted since
                    note.remove()
                    continue
                trainee = Trainee(join, note)
                if goodbye is not None:
                    trainee.say_goodbye(goodbye)
                self._roster.add(trainee)

    def _is_over(self) -> bool:
        now = time.monotonic()
        if any(not trainee.has_left for trainee in self._roster.all()):
            self._idle_since, self._progress = None, (self._progress[0], now)
            return False
        if len(self._roster):
            # Patience counts from the last progress, which is a change in the acknowledged bytes.
            if self._roster.safe_bytes != self._progress[0]:
                self._progress = (self._roster.safe_bytes, now)
            patience = REFUSED_SECS if self._bulletin.is_refused else self._patience_secs
            return now - self._progress[1] > patience
        if self._idle_since is None or self._has_guests_to_come():
            self._idle_since = now
        return now - self._idle_since > LINGER_SECS

    def _has_guests_to_come(self) -> bool:
        # A note that no agent holds: its trainer is about to connect, or will be adopted.
        return any(note.is_free for note in notes_in(self._meeting.notes))

    def _hurry(self) -> None:
        self._patience_secs = min(self._patience_secs, LEAVING_SECS)

    # ---- trainers ----------------------------------------------------------------------------------------

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a trainer to its end."""
        trainee: Trainee | None = None
        try:
            if not is_own(writer.get_extra_info("socket")):
                return
            unpacker = Unpacker()
            while data := await reader.read(_READ_BYTES):
                for message in unpacker.feed(data):
                    trainee = self._take(pb.FromTrainer.FromString(message), trainee, writer)
                # Reading stops while too much waits upwards: the socket then holds the trainer back.
                while trainee is not None and trainee.control_bytes > MOST_CONTROL_BYTES:
                    await asyncio.sleep(TICK_SECS)
        except (OSError, WireError, DecodeError):
            pass  # whatever happened, the trainer reconnects if it can
        finally:
            if trainee is not None:
                trainee.hang_up(writer)
                self._roster.look(time.monotonic())
            writer.close()

    def _take(
        self, message: pb.FromTrainer, trainee: Trainee | None, writer: asyncio.StreamWriter
    ) -> Trainee:
        """Handle one message and return its trainee. Raise WireError for any message before the Join."""
        what = message.WhichOneof("what")
        if what == "join":
            trainee = self._joined(message.join)
            trainee.connection = writer
            trainee.tell_connected()
            trainee.tell_place()
        elif trainee is None:
            raise WireError("the first message is a Join")
        elif what == "goodbye":
            trainee.say_goodbye(message.goodbye)
        elif what == "control":
            trainee.take_control(message.control)
            self._roster.news.set()
        return trainee

    def _joined(self, join: pb.Join) -> Trainee:
        """Return the trainee of this note if it was adopted meanwhile, else a new one."""
        # A plain file name, so that the note cannot lie outside this agent's folder.
        note = Note(self._meeting.notes / join.note) if join.note and "/" not in join.note else None
        known = self._roster.of_note(note) if note is not None else None
        if known is not None:
            return known
        if note is not None:
            note.hold()
        trainee = Trainee(join, note)
        self._roster.add(trainee)
        return trainee
