"""Handles slow clients: replies are sent as fast as the client reads, request bodies have to come in time.

Werkzeug has a thread for each connection and no time limits. So a client that reads nothing, or sends half a
body, would keep a thread for ever, and with it a seat at the stream or a reply of many megabytes. This module
waits for both, in pieces that the connection takes at once. A server other than werkzeug's hands no socket to
us; there nothing is waited for, and the server has limits of its own.
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

# A client that reads nothing for this long is disconnected; one that reads slowly is not.
PATIENCE_SECS = 30.0
# The time for a whole body, which is at most 64 KiB for all of our routes.
BODY_SECS = 10.0
# Small enough to fit whenever poll reports room.
PIECE_BYTES = 16 << 10
_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class SlowBodyError(Exception):
    """The request body did not come in time."""


def connection_of(environ: WSGIEnvironment) -> socket.socket | None:
    """Return the socket, which only werkzeug's own server hands over."""
    connection = environ.get("werkzeug.socket")
    return connection if isinstance(connection, socket.socket) and hasattr(select, "poll") else None


def size_of(response: Response) -> int:
    """Return how many bytes of a body are in memory; 0 for one that is generated, without a known length."""
    if response.is_sequence:
        return sum(len(piece) for piece in response.iter_encoded())
    return response.content_length or 0


def pace(response: Response, connection: socket.socket, seat: Seat | None = None) -> None:
    """Have the body sent in pieces, each when the connection has room for it; then give back the seat."""
    connection.settimeout(PATIENCE_SECS)  # limits what the server reads and drops after us
    if response.is_sequence:
        response.content_length = size_of(response)
    response.response = PacedBody(response.response, connection, seat)


class PacedBody:
    """The body of a reply in pieces. The server may skip `close`, so the last piece calls it, too."""

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
    """Read `size` bytes, or fewer at the end of the stream, whose buffer may hold some already."""
    read1 = getattr(stream, "read1")  # noqa: B009
    until = time.monotonic() + BODY_SECS
    found = bytearray()
    is_ready = False
    while len(found) < size:
        piece = read1(size - len(found))
        found += piece
        if piece:
            is_ready = False
        elif is_ready:  # readable but empty: end of stream
            break
        elif not _wait(connection, select.POLLIN, until - time.monotonic()):
            raise SlowBodyError
        else:
            is_ready = True
    return bytes(found)


def has_room(connection: socket.socket, secs: float) -> bool:
    """Wait until a piece can be sent; return False if the client is gone, or took nothing in that time."""
    while True:
        before = _unsent(connection)
        found = _wait(connection, select.POLLOUT, secs)
        if found:
            return not found & _GONE
        # A client that took some bytes, but too few to make room, gets more time.
        if _unsent(connection) >= before:
            return False


def has_hung_up(connection: socket.socket) -> bool:
    """Return whether the other end has closed, without taking what it may have sent."""
    found = _wait(connection, select.POLLIN, 0.0)
    try:
        return bool(found) and (bool(found & _GONE) or connection.recv(1, socket.MSG_PEEK) == b"")
    except OSError:
        return True


class SendProgress:
    """Tells whether a client still reads: sent data may stay in the connection's buffers for ever."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unsent = 0
        self._since = time.monotonic()

    def is_lost(self) -> bool:
        """Return whether the client is lost, after closing its connection. To be called now and then."""
        unsent, now = _unsent(self._connection), time.monotonic()
        if unsent == 0 or unsent < self._unsent:
            self._since = now
        self._unsent = unsent
        if now - self._since <= PATIENCE_SECS:
            return False
        hang_up(self._connection)
        return True


def hang_up(connection: socket.socket) -> None:
    """Shut the connection down both ways, so that the server has nothing more to read, either."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _wait(connection: socket.socket, event: int, secs: float) -> int:
    """Return the events that are there, or 0 if none came in that time."""
    poll = select.poll()
    try:
        poll.register(connection, event)
    except (OSError, ValueError):  # closed already
        return select.POLLNVAL
    return sum(found for _, found in poll.poll(max(0, round(1000 * secs))))


def _unsent(connection: socket.socket) -> int:
    """Return how many bytes the other end has not acknowledged; 0 where the system does not report it."""
    try:
        import fcntl
        import termios

        (size,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))
    except (ImportError, OSError):
        return 0
    return int(size)
