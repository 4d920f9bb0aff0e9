"""Connections that are slow on purpose: what we send waits for the reader, what is sent to us comes in time.

Werkzeug has a thread for each connection and no limit on time, so somebody who reads nothing, or sends half a
body, would keep a thread for ever, and with it a place at the stream or an answer of many megabytes. Both are
waited for here, in pieces that the connection takes at once. Under another server, which hands no socket to
us, nothing is waited for: it has limits of its own.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment
    from werkzeug.wrappers import Request, Response

    from tb_netdebug.viewer.plugin.live import Seat

# A reader who takes nothing for so long is given up; one that is slow but reads is not.
PATIENCE_SECS = 30.0
# A whole body of our routes is 64 KiB at most.
BODY_SECS = 10.0
# Little enough to fit wherever a socket says that it has room.
PIECE_BYTES = 16 << 10
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class SlowBodyError(Exception):
    """The body did not come in time."""


def connection_of(environ: WSGIEnvironment) -> socket.socket | None:
    """Return the socket, which werkzeug's own server hands over."""
    connection = environ.get("werkzeug.socket")
    return connection if isinstance(connection, socket.socket) and hasattr(select, "poll") else None


def size_of(response: Response) -> int:
    """How many bytes of a body are in memory; 0 for one that is made while it is sent."""
    if response.is_sequence:
        return sum(len(piece) for piece in response.iter_encoded())
    return response.content_length or 0


def pace(response: Response, connection: socket.socket, seat: Seat | None = None) -> None:
    """Have the body sent in pieces, each as soon as the connection has room for it; then the seat is free."""
    connection.settimeout(PATIENCE_SECS)  # for what the server reads after us, and throws away
    if response.is_sequence:
        response.content_length = size_of(response)
    response.response = PacedBody(response.response, connection, seat)


class PacedBody:
    """The body of an answer. The server does not always call `close`, so that the end of the pieces does."""

    def __init__(
        self, body: Iterable[bytes] | Iterable[str], connection: socket.socket, seat: Seat | None = None
    ) -> None:
        self._body = body
        self._connection = connection
        self._seat = seat

    def __iter__(self) -> Iterator[bytes]:
        try:
            for whole in self._body:
                data = memoryview(whole.encode() if isinstance(whole, str) else whole)
                for start in range(0, len(data), PIECE_BYTES):
                    if not has_room(self._connection, PATIENCE_SECS):
                        hang_up(self._connection)
                        return
                    yield bytes(data[start : start + PIECE_BYTES])
        finally:
            self.close()

    def close(self) -> None:
        close = getattr(self._body, "close", None)
        if close is not None:
            close()
        if self._seat is not None:
            self._seat.give_back()


def body_of(request: Request) -> bytes:
    """Return the body, whose length `control` has checked. Raises SlowBodyError."""
    connection = connection_of(request.environ)
    if connection is None:
        return request.get_data()
    connection.setblocking(False)
    try:
        return _read(request.environ["wsgi.input"], connection, request.content_length or 0)
    finally:
        connection.settimeout(PATIENCE_SECS)


def _read(stream: object, connection: socket.socket, size: int) -> bytes:
    """Read so many bytes, or fewer when no more will come. Some may be in the stream's buffer already."""
    read1 = getattr(stream, "read1")  # noqa: B009
    until = time.monotonic() + BODY_SECS
    found = bytearray()
    is_ready = False
    while len(found) < size:
        piece = read1(size - len(found))
        found += piece
        if piece:
            is_ready = False
        elif is_ready:  # there was something to read, and it was the end
            break
        elif not _wait(connection, select.POLLIN, until - time.monotonic()):
            raise SlowBodyError
        else:
            is_ready = True
    return bytes(found)


def has_room(connection: socket.socket, secs: float) -> bool:
    """Wait until a piece can be sent; False when nobody is there, or nothing was taken in that time."""
    while True:
        before = _unsent(connection)
        found = _wait(connection, select.POLLOUT, secs)
        if found:
            return not found & _GONE
        if _unsent(connection) >= before:
            return False


def has_hung_up(connection: socket.socket) -> bool:
    """Whether the other end has closed; what it may have sent stays where it is."""
    found = _wait(connection, select.POLLIN, 0.0)
    try:
        return bool(found) and (bool(found & _GONE) or connection.recv(1, socket.MSG_PEEK) == b"")
    except OSError:
        return True


class SendProgress:
    """Whether a reader takes anything: what was sent may be in the buffers of a connection for ever."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unsent = 0
        self._since = time.monotonic()

    def is_lost(self) -> bool:
        """To be asked now and then. After that the connection is closed."""
        unsent, now = _unsent(self._connection), time.monotonic()
        if unsent == 0 or unsent < self._unsent:
            self._since = now
        self._unsent = unsent
        if now - self._since <= PATIENCE_SECS:
            return False
        hang_up(self._connection)
        return True


def hang_up(connection: socket.socket) -> None:
    """Both ways: the server, too, has nothing more to read then."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _wait(connection: socket.socket, event: int, secs: float) -> int:
    """The events that are there; 0 when none came in that time."""
    poll = select.poll()
    try:
        poll.register(connection, event)
    except (OSError, ValueError):  # it is closed
        return select.POLLNVAL
    return sum(found for _, found in poll.poll(max(0, round(1000 * secs))))


def _unsent(connection: socket.socket) -> int:
    """How many bytes the other end has not taken yet; 0 where the system does not tell."""
    try:
        import fcntl
        import termios

        (size,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    except (ImportError, OSError):
        return 0
    return int(size)
