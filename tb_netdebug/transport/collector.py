"""The collector: a server, on its own thread, that writes event files from elsewhere into a logdir."""

from __future__ import annotations

import asyncio
import atexit
import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tb_netdebug.transport import discovery
from tb_netdebug.transport.addresses import LOOPBACK, Address, at
from tb_netdebug.transport.arrivals import Totals, TrainerView, Violation
from tb_netdebug.transport.credentials import Certificate, CredentialsError, checked_token
from tb_netdebug.transport.disk import Disk
from tb_netdebug.transport.limits import USUAL, Limits
from tb_netdebug.transport.notices import Notices
from tb_netdebug.transport.ports import CollectorError, try_port
from tb_netdebug.transport.received_files import ReceivedFiles
from tb_netdebug.transport.server import Send, Server
from tb_netdebug.transport.session import StreamSession

logger = logging.getLogger(__name__)

EVERYWHERE = ("0.0.0.0", "::")
# Of all loopback addresses, those that gRPC's local credentials accept.
LOCAL = ("localhost", "127.0.0.1", "::1")
# How long a stream may take to sync its files when the collector stops, or when its agent has reconnected.
FAREWELL_SECS = 5.0
# A disk may hang for ever; the program around the collector has to end all the same.
STUCK_SECS = 20.0


class Collector:
    """A server that writes the event files of agents below `root`, in TensorBoard or `netdebug collect`.

    Agents have to bring the token. On loopback the trainers of the same user find it by themselves. Any other
    address needs a certificate, or `insecure`. With `insecure` there is no token, since others on the network
    could read it, and everybody who reaches the port can write recordings.

    `notice(sentence)` is called on any thread to report failures.
    """

    def __init__(
        self, root: Path, listen: Address, *, token: str, certificate: Certificate | None = None,
        insecure: bool = False, limits: Limits = USUAL, notice: Callable[[str], None] | None = None,
    ) -> None:  # fmt: skip
        self.root = root
        self.listen = listen
        self.certificate = certificate
        self._token = token
        self._is_open = insecure and not listen.is_loopback and certificate is None
        self._limits = limits
        self._notices = Notices(notice or logger.warning)
        self._id = secrets.token_hex(16)
        self._on_control: Callable[[str, bytes], None] | None = None
        self._on_left: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._sessions: dict[str, StreamSession] = {}
        self._before = Totals()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._published: Path | None = None

    # ---- called from any thread

    def start(self) -> Address:
        """Start listening and return the address with the actual port. Raise CollectorError."""
        self._check()
        started: Future[Address] = Future()
        self._thread = threading.Thread(
            target=self._run, args=(started,), name="netdebug-collector", daemon=True
        )
        self._thread.start()
        try:
            address = started.result()
            self._publish(address)
        except BaseException:
            self.stop()
            raise
        atexit.register(self.stop)
        return address

    def stop(self) -> None:
        """Sync and acknowledge what has arrived, and close all streams; the agents will try to reconnect.

        A second call does nothing.
        """
        atexit.unregister(self.stop)
        if self._published is not None:
            discovery.withdraw(self._published)
        if self._loop is not None and self._stopping is not None:
            with suppress(RuntimeError):  # the loop is closed: the second call
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread is not None:
            self._thread.join(STUCK_SECS)

    def __enter__(self) -> Collector:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def trainers(self) -> list[TrainerView]:
        """Return the trainers of all agents that are connected."""
        return [trainer for session in self._all() for trainer in session.trainers()]

    def totals(self) -> Totals:
        """Return how much has arrived since the start."""
        with self._lock:
            return sum((session.totals for session in self._sessions.values()), self._before)

    def on_control(self, callback: Callable[[str, bytes], None]) -> None:
        """Set the debugger's callback for messages of trainers that take control.

        It is called with the trainer's key and the bytes, on the collector's thread. Set it before `start`,
        which publishes whether this collector debugs: trainers on this machine look for one that does.
        """
        self._on_control = callback

    def on_left(self, callback: Callable[[], None]) -> None:
        """Set a callback for the collector's thread, called when one of `trainers` has gone."""
        self._on_left = callback

    def send(self, trainer_key: str, data: bytes) -> bool:
        """Send bytes to a trainer that takes control; return whether they were accepted.

        They are refused when no such trainer has this key, or when so much is queued for it that its agent
        cannot be reading.
        """
        agent, _, number = trainer_key.partition("/")
        with self._lock:
            session = self._sessions.get(agent)
            if session is None or self._loop is None or not number.isdecimal():
                return False
            if not session.has_room(int(number), len(data)):
                return False
            session.unsent_bytes += len(data)
        sending = asyncio.run_coroutine_threadsafe(session.control(int(number), data), self._loop)
        sending.add_done_callback(lambda sent: self._sent(session, len(data), sent))
        return True

    def _sent(self, session: StreamSession, size: int, sent: Future[None]) -> None:
        with self._lock:
            session.unsent_bytes -= size
        problem = None if sent.cancelled() else sent.exception()
        if problem is not None and not isinstance(problem, ConnectionError):
            logger.error("NetDebug could not send to a training process", exc_info=problem)

    # ---- before it listens

    def _check(self) -> None:
        if not self._token:
            raise CollectorError("A collector needs a token: without one, anybody could write to its logdir.")
        try:
            self._token = checked_token(self._token, "What the collector was given for its token")
        except CredentialsError as error:
            raise CollectorError(str(error)) from None
        if not (self.listen.is_loopback or self.certificate or self._is_open):
            raise CollectorError(
                f"Other machines can reach {self.listen}, so a certificate is needed: `netdebug token "
                "--tls` makes one. Or listen only on this machine, and let an ssh tunnel lead to it."
            )
        if self.listen.is_loopback and not self.certificate and self.listen.host.lower() not in LOCAL:
            raise CollectorError(f"Without a certificate, listen at 127.0.0.1 or [::1], not {self.listen}.")
        try_port(self.listen)

    def _publish(self, address: Address) -> None:
        if not (address.is_loopback or address.host in EVERYWHERE):
            return  # trainers on this machine look for it at loopback, where it does not listen
        try:
            self._published = discovery.publish(
                address.port,
                self._token,
                str(self.root.absolute()),
                tls=self.certificate.fingerprint if self.certificate else "",
                debugs=self._on_control is not None,
            )
        except OSError as error:
            raise CollectorError(
                f"Training processes on this machine cannot find the collector: {error}."
            ) from None

    # ---- on its thread

    def _run(self, started: Future[Address]) -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as problem:
            if started.done():
                logger.exception("NetDebug's collector failed because of an internal error")
            else:
                started.set_exception(problem)

    async def _serve(self, started: Future[Address]) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(_say_what_matters)
        self._stopping = asyncio.Event()
        disk = Disk(self._limits.disk_threads)
        landing = ReceivedFiles(self.root)

        def make_session(send: Send) -> StreamSession:
            return StreamSession(
                landing, disk, self._limits, collector=self._id, send=send,
                debugs=self._on_control is not None, on_control=self._controlled,
                on_left=self._left, on_refused=self._notices.add,
            )  # fmt: skip

        server = Server(
            self._limits, None if self._is_open else self._token,
            make_session=make_session, admit=self._admit, dismiss=self._dismiss,
        )  # fmt: skip
        try:
            started.set_result(await self._listen(server))
            await self._stopping.wait()
            await self._farewell()
        finally:
            await server.stop(1.0)
            disk.close()

    async def _listen(self, server: Server) -> Address:
        host = LOOPBACK if self.listen.host.lower() == "localhost" else self.listen.host
        try:
            port = await server.start(at(host, self.listen.port), self.certificate)
        except RuntimeError:
            raise CollectorError(f"Cannot listen at {self.listen}.") from None
        return Address(self.listen.host, port, self.listen.is_loopback)

    async def _farewell(self) -> None:
        sessions = self._all()
        for session in sessions:
            session.end()
        await _all_ended(sessions)

    async def _admit(self, session: StreamSession) -> None:
        """Register a stream, after ending an older one of the same agent.

        The old stream may look alive for long, and holds the files of that agent.
        """
        earlier = self._sessions.get(session.agent)
        if earlier is not None:
            earlier.end(silently=True)
            if not await _all_ended([earlier]):
                raise Violation("The earlier stream of this agent has not ended yet.", for_now=True)
            self._dismiss(earlier)
        with self._lock:
            if session.agent in self._sessions:  # yet another stream came during the wait
                raise Violation("This agent already has two streams.", for_now=True)
            self._sessions[session.agent] = session

    def _dismiss(self, session: StreamSession) -> None:
        with self._lock:
            if self._sessions.get(session.agent) is session:
                del self._sessions[session.agent]
                self._before += session.totals  # so that they still count when the stream is gone
        self._left()

    def _all(self) -> list[StreamSession]:
        with self._lock:
            return [*self._sessions.values()]

    def _controlled(self, key: str, data: bytes) -> None:
        if self._on_control is None:
            return
        try:
            self._on_control(key, data)
        except Exception:  # an error of the debugger must not end the recordings' stream
            logger.exception("NetDebug's debugger could not handle a message")

    def _left(self) -> None:
        if self._on_left is None:
            return
        try:
            self._on_left()
        except Exception:  # likewise
            logger.exception("NetDebug's debugger could not handle the end of a run")


async def _all_ended(sessions: list[StreamSession]) -> bool:
    waits = [asyncio.ensure_future(session.ended.wait()) for session in sessions]
    if not waits:
        return True
    _, pending = await asyncio.wait(waits, timeout=FAREWELL_SECS)
    for wait in pending:
        wait.cancel()
    return not pending


def _say_what_matters(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log the errors of the loop, but not BlockingIOError.

    With several loops in one process, gRPC wakes all of them for what one of them receives (grpc/grpc#25364).
    """
    if not isinstance(context.get("exception"), BlockingIOError):
        loop.default_exception_handler(context)
