"""The trainer's end of the connection to the agent: one thread, one socket, and no gRPC.

The files do not pass through it. It reports to the agent where they are, restarts the agent when it is gone,
prints the agent's notices, and carries the debugger's messages in both directions.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from google.protobuf.message import DecodeError

from tb_netdebug.core.records.visible import visible
from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.agent_connection import AgentConnection
from tb_netdebug.transport.agent_paths import AgentPaths
from tb_netdebug.transport.local_wire import Unpacker, WireError, packed
from tb_netdebug.transport.notes import Note
from tb_netdebug.transport.outbox import Outbox, Wake, WakeLost
from tb_netdebug.transport.process import stat_of

VERSION = 1
KNOCK_SECS = 0.05
FIRST_RETRY_SECS, LAST_RETRY_SECS = 0.5, 60.0
# An agent that lived at least this long did not fail at its start, so the back-off starts again.
SOUND_SECS = 5.0
MOST_WAITING_BYTES = 32 << 20
# The largest message of the debugger: a collector takes no more of one stream (Limits.control_bytes).
MOST_MESSAGE_BYTES = 4 << 20
CLOSE_SECS = 2.0
# A collector acknowledges within a second or so.
DELIVERY_SECS = 5.0
_READ_BYTES = 1 << 16

# How far the records of a run got: no collector has answered, some have arrived, all have.
UNSENT, PARTLY, DELIVERED = "unsent", "partly", "delivered"

_links: weakref.WeakSet[Link] = weakref.WeakSet()
# Kept by run folder, because a link is gone when its recording is over.
_deliveries: dict[str, str] = {}
# Likewise, the name of the run at the collector.
_names_there: dict[str, str] = {}
_waits_at_exit = False


class Link:
    """The connection of one recording to the agent.

    It never raises into the training loop and never blocks it. In forked children it is closed.
    """

    def __init__(self, remote: str, join: pb.Join, notice: Callable[[str], None]) -> None:
        self.on_control: Callable[[bytes], None] | None = None
        self._on_connected: Callable[[], None] | None = None
        self._is_connected = False
        self._connecting = threading.Lock()
        self._remote = remote
        self._join = join
        self._notice = notice
        self._note: Note | None = None
        self._agent: AgentConnection | None = None
        self._connection: socket.socket | None = None
        self._outbox = Outbox(MOST_WAITING_BYTES)
        self._wake = Wake()
        self._goodbye: pb.Goodbye | None = None
        self._is_closed = False
        self._has_complained = False
        self._retry_secs = FIRST_RETRY_SECS
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="netdebug-link", daemon=True)
        forget_in_children(self)

    @classmethod
    def start(
        cls, *, remote: str, run_dir: Path, run: Sequence[str], rank: int, is_spool: bool,
        takes_control: bool, notice: Callable[[str], None], identity: str = "", resumes: bool = False,
    ) -> Link:  # fmt: skip
        """Start a link and return at once; everything else happens on its thread.

        `notice` is called on that thread with sentences for the terminal. Raise OSError or RuntimeError when
        no thread can be started.
        """
        link = cls.prepare(
            remote=remote, run_dir=run_dir, run=run, rank=rank, is_spool=is_spool,
            takes_control=takes_control, notice=notice, identity=identity, resumes=resumes,
        )  # fmt: skip
        link.begin()
        return link

    @classmethod
    def prepare(
        cls, *, remote: str, run_dir: Path, run: Sequence[str], rank: int, is_spool: bool,
        takes_control: bool, notice: Callable[[str], None], records_stay: bool = False,
        identity: str = "", resumes: bool = False,
    ) -> Link:  # fmt: skip
        """Return a link that does nothing before `begin`; the arguments are those of `start`.

        With `records_stay` only the debugger's messages travel. Without an `identity` the collector takes all
        runs of one name for the same run.
        """
        stat = stat_of(os.getpid())
        join = pb.Join(
            version=VERSION,
            run_dir=str(run_dir.absolute()),
            run=run,
            rank=rank,
            pid=os.getpid(),
            takes_control=takes_control,
            is_spool=is_spool,
            records_stay=records_stay,
            started=stat.started if stat is not None else 0,
            identity=identity,
            resumes=resumes,
        )
        return cls(remote, join, notice)

    def begin(self) -> None:
        """Start the thread. Raise RuntimeError when that is impossible."""
        wait_at_exit()
        self._note_delivery(UNSENT)
        self._thread.start()
        _links.add(self)

    @property
    def remote(self) -> str:
        return self._remote

    def attach(self, on_control: Callable[[bytes], None], on_connected: Callable[[], None]) -> None:
        """Connect the debugger's end in this process.

        Both callbacks run on the link's thread. `on_connected` is called whenever a peer starts listening,
        and at once if one does already.
        """
        with self._connecting:
            self.on_control, self._on_connected = on_control, on_connected
            is_connected = self._is_connected
        if is_connected:
            on_connected()

    def send(self, data: bytes) -> bool:
        """Send bytes to the debugger's other end, at most once; return whether they were accepted."""
        if not self._is_open() or len(data) > MOST_MESSAGE_BYTES:
            return False
        is_taken = self._outbox.put(packed(pb.FromTrainer(control=data)))
        self._wake.rouse()
        return is_taken

    def goodbye(self, *, error: str = "") -> None:
        """Report that all files are complete, and return at once.

        The link closes itself when the collector has everything, or when that may take long.
        `wait_for_deliveries` waits for it.
        """
        if self._is_open() and self._goodbye is None:
            self._goodbye = pb.Goodbye(error=error)
            self._wake.rouse()

    @property
    def is_leaving(self) -> bool:
        return self._goodbye is not None and self._thread.is_alive()

    def wait(self, timeout_secs: float) -> None:
        """Wait until the link is closed."""
        self._thread.join(timeout_secs)

    def close(self) -> None:
        """Close the link at once. The agent still sends what is left."""
        if not self._is_open():
            return
        self._is_closed = True
        self._wake.rouse()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECS)

    # ---- on the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._leave_note()
            while not self._is_closed:
                connection = self._reach()
                if connection is not None:
                    self._stay(connection)
        except Exception as error:  # the records are safe on the local disk
            self._complain(f"{type(error).__name__}: {error}")
        finally:
            self._note_goodbye()
            if self._agent is not None:
                self._agent.close()

    def _leave_note(self) -> None:
        """Leave a note for later agents.

        With it everything is sent even when this process and its agent are killed.
        """
        meeting = AgentPaths.of(self._remote)
        self._agent = AgentConnection(meeting)
        if self._join.records_stay:
            return
        try:
            self._note = Note.leave(meeting.notes, self._join)
        except OSError as error:
            self._complain(f"no note could be left for its helper process ({error})")

    def _reach(self) -> socket.socket | None:
        """Return a connection to the agent; None after a short wait without one."""
        assert self._agent is not None
        self._note_goodbye()
        connection = self._agent.knock()
        if connection is not None:
            return connection
        try:
            self._agent.call()
        except OSError as error:
            self._agent.complaint = f"its helper process could not be started: {error}"
        if self._agent.complaint:
            self._complain(self._agent.complaint)
            self._agent.complaint = ""
            # With the recording over there is nothing to wait for: its note is left to a later agent.
            self._is_closed = self._is_closed or self._goodbye is not None
            self._rest()
        else:
            self._wake.sleep(KNOCK_SECS)
        return None

    def _rest(self) -> None:
        self._wake.sleep(self._retry_secs)
        self._retry_secs = min(2 * self._retry_secs, LAST_RETRY_SECS)

    def _stay(self, connection: socket.socket) -> None:
        began = time.monotonic()
        self._outbox.open()
        self._connection = connection
        try:
            self._converse(connection)
        except (OSError, WireError):
            pass  # the agent is gone; the next round starts another
        except WakeLost:
            connection.detach()  # its number, too, may be another file's by now
            raise
        finally:
            self._outbox.close()
            self._hear_connected(False)
            self._connection = None
            connection.close()
        if time.monotonic() - began > SOUND_SECS:
            self._retry_secs = FIRST_RETRY_SECS
        if not self._is_closed:
            self._rest()

    def _converse(self, connection: socket.socket) -> None:
        """Exchange messages until either side closes. Raise OSError or WireError."""
        unpacker = Unpacker()
        outgoing = memoryview(packed(pb.FromTrainer(join=self._join)))
        owes_goodbye = True
        waiting = select.poll()
        waiting.register(self._wake.descriptor, select.POLLIN)
        while True:
            outgoing = outgoing or memoryview(self._outbox.take())
            if not outgoing and self._goodbye is not None and owes_goodbye:
                owes_goodbye = False
                self._note_goodbye()
                outgoing = memoryview(packed(pb.FromTrainer(goodbye=self._goodbye)))
            if not outgoing and self._is_closed:
                return
            waiting.register(connection, select.POLLIN | (select.POLLOUT if outgoing else 0))
            ready = dict(waiting.poll())
            self._wake.drain()
            happened = ready.get(connection.fileno(), 0)
            with suppress(BlockingIOError):
                if happened & select.POLLOUT:
                    outgoing = outgoing[connection.send(outgoing) :]
                # POLLHUP and POLLERR count as readable: recv reports what they mean.
                if happened & ~select.POLLOUT and not self._hear(connection, unpacker):
                    return

    def _hear(self, connection: socket.socket, unpacker: Unpacker) -> bool:
        """Handle what the agent has sent; return whether more may come."""
        data = connection.recv(_READ_BYTES)
        for message in unpacker.feed(data):
            try:
                told = pb.ToTrainer.FromString(message)
            except DecodeError:
                raise WireError("a message is invalid") from None
            what = told.WhichOneof("what")
            if what == "notice":
                self._notice(told.notice)
            elif what == "delivered":
                if told.delivered:
                    self._note_delivery(DELIVERED)
                self._is_closed = True
            elif what == "connected":
                self._hear_connected(told.connected)
            elif what == "placed":
                self._hear_name(visible("/".join(told.placed.run)))
            elif what == "control" and self.on_control is not None:
                self.on_control(told.control)
        return bool(data)

    def _hear_connected(self, is_connected: bool) -> None:
        if is_connected:
            self._note_delivery(PARTLY)
        with self._connecting:
            self._is_connected = is_connected
            on_connected = self._on_connected if is_connected else None
        if on_connected is not None:
            on_connected()

    def _hear_name(self, name: str) -> None:
        """Note the name of the run at the collector.

        When it is not the one that was asked for, rank 0 prints that once.
        """
        asked = visible("/".join(self._join.run))
        before = _names_there.get(self._join.run_dir, asked)
        _names_there[self._join.run_dir] = name
        if name not in (before, asked) and self._join.rank == 0:
            self._notice(
                f"the collector at {self._remote} has another run called {asked!r}, so this one is called "
                f"{name!r} there."
            )

    def _note_delivery(self, state: str) -> None:
        if not self._join.records_stay:
            _deliveries[self._join.run_dir] = state

    def _note_goodbye(self) -> None:
        if self._goodbye is not None and self._note is not None:
            note, self._note = self._note, None
            with suppress(OSError):
                note.say_goodbye(self._goodbye)

    def _complain(self, reason: str) -> None:
        if not self._has_complained:
            self._has_complained = True
            self._notice(
                f"the debugger at {self._remote} cannot be reached: {reason}. The training goes on."
                if self._join.records_stay
                else f"nothing can be sent to {self._remote}: {reason}. The training goes on, and its "
                f"records are in {self._join.run_dir}."
            )

    # ---- parts -------------------------------------------------------------------------------------------

    def _is_open(self) -> bool:
        return not self._is_closed and self._pid == os.getpid()

    def _forget(self) -> None:
        """Close everything in a forked child.

        The child must neither keep the parent's connection open nor send in its name.
        """
        self._is_closed = True
        _links.discard(self)
        self._wake.close()
        if self._agent is not None:
            self._agent.forget()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def wait_for_deliveries(timeout_secs: float = DELIVERY_SECS) -> None:
    """Wait at the end of a program for the links that are still delivering.

    When a container or a batch job ends with the program, the agent ends with it.
    """
    until = time.monotonic() + timeout_secs
    for link in list(_links):
        if link.is_leaving:
            link.wait(max(until - time.monotonic(), 0.0))


def delivery_of(run_dir: Path) -> str:
    """Return UNSENT, PARTLY or DELIVERED; empty for a run that this process sends nowhere."""
    return _deliveries.get(str(run_dir.absolute()), "")


def name_there(run_dir: Path) -> str:
    """Return the name of the run at the collector; empty until the collector has reported it."""
    return _names_there.get(str(run_dir.absolute()), "")


def wait_at_exit() -> None:
    """Register `wait_for_deliveries` to run at exit, once.

    It is registered before the first recording's own exit handler, because those run in reverse order.
    """
    global _waits_at_exit
    if not _waits_at_exit:
        _waits_at_exit = True
        atexit.register(wait_for_deliveries)


def forget_in_children(link: Link) -> None:
    reference = weakref.ref(link)

    def after_fork() -> None:
        copy = reference()
        if copy is not None:
            copy._forget()

    os.register_at_fork(after_in_child=after_fork)
