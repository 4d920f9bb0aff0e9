"""One server-sent event stream to a client: the `live` route."""

from __future__ import annotations

import socket
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request, Response

from tb_netdebug.viewer.plugin import wire
from tb_netdebug.viewer.plugin.live import Hub, RunUpdate, Seat, Seats, SessionKey, resume_point
from tb_netdebug.viewer.plugin.pacing import SendProgress, connection_of, has_hung_up
from tb_netdebug.viewer.plugin.replies import error_reply, reply

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

# Each stream keeps a thread of TensorBoard's server busy.
MOST_STREAMS = 24
HEARTBEAT_SECS = 4.0
# How soon a client that hung up is noticed; the server itself only notices when it writes.
LOOK_SECS = 1.0
RETRY_SECS = 5
GIVE_UP_MILLISECONDS = 30_000
HEADERS = {
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # asks proxies not to buffer
}


def stream_reply(request: Request, hub: Hub, seats: Seats) -> Response:
    """Return the stream, or 503 if as many clients as allowed are connected."""
    if request.method == "HEAD":
        return reply(b"", "text/event-stream", headers=HEADERS)
    seat = seats.take()
    if seat is None:
        return error_reply(
            f"{MOST_STREAMS} pages are open already. Close some of them.",
            status=503,
            headers={"Retry-After": str(RETRY_SECS)},
        )
    # A browser that reconnects sends the header; a page that closed its stream and opens a new one cannot.
    identity = request.headers.get("Last-Event-ID") or request.args.get("last_event_id", "")
    listener = EventStream(hub, seat, resume_point(identity, hub), _watched(request.environ))
    return reply(listener, "text/event-stream", headers=HEADERS)


class EventStream:
    """Yields events as they happen, and a heartbeat comment when there are none.

    The server always calls `close`, even if it never asked for the first event. A generator by itself would
    not notice that, and its seat would never be free again.
    """

    def __init__(
        self, hub: Hub, seat: Seat, seen: int | None, connection: socket.socket | None = None
    ) -> None:
        self._hub = hub
        self._seat = seat
        self._events = self._run(hub.version if seen is None else seen)
        self._connection = connection
        self._pulse = None if connection is None else SendProgress(connection)

    def __iter__(self) -> Iterator[bytes]:
        return self._events

    def close(self) -> None:
        self._events.close()
        self._seat.give_back()

    def _run(self, seen: int) -> Generator[bytes, None, None]:
        # A client that reconnects by itself does so after 1000 ms.
        yield b"retry: 1000\n" + self._event("hello", {"epoch": self._hub.epoch, "version": seen}, seen)
        quiet_secs = 0.0
        while not self._hub.closed and not self._is_left():
            news = self._hub.wait(seen, timeout=LOOK_SECS)
            quiet_secs = 0.0 if news else quiet_secs + LOOK_SECS
            if news:
                seen = news[-1].version
                yield b"".join(self._told(one) for one in news)
            elif quiet_secs >= HEARTBEAT_SECS:
                quiet_secs = 0.0
                yield b": still here\n\n"

    def _is_left(self) -> bool:
        if self._connection is None or self._pulse is None:
            return False
        return has_hung_up(self._connection) or self._pulse.is_lost()

    def _told(self, news: RunUpdate) -> bytes:
        if news.name is None:
            return self._event("runs", {"version": news.version}, news.version)
        if isinstance(news.name, SessionKey):
            return self._event("debugger", {**(news.row or {})}, news.version)
        return self._event("run", {"run": news.name, **(news.row or {})}, news.version)

    def _event(self, name: str, value: dict[str, object], version: int) -> bytes:
        return wire.event(name, value, identity=f"{self._hub.epoch}-{version}")


def _watched(environ: WSGIEnvironment) -> socket.socket | None:
    """Return the connection, with a limit on how long sent data may stay unacknowledged.

    Without it a client whose machine has vanished would keep its seat for a quarter of an hour; with it half
    a minute.
    """
    connection = connection_of(environ)
    if connection is None:
        return None
    if hasattr(socket, "TCP_USER_TIMEOUT") and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, GIVE_UP_MILLISECONDS)
    return connection
