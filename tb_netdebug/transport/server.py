"""The gRPC server of a collector: checks the token, limits the streams, and runs a session for each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc

from tb_netdebug.transport.addresses import Address
from tb_netdebug.transport.arrivals import Violation
from tb_netdebug.transport.credentials import Certificate, same_token, token_fault
from tb_netdebug.transport.limits import MESSAGE_BYTES, Limits
from tb_netdebug.transport.session import StreamSession

SERVICE, METHOD = "netdebug.Stream", "Connect"
_SCHEME = b"bearer "

Send = Callable[[bytes], Awaitable[None]]
Admit = Callable[[StreamSession], Awaitable[None]]


class Server:
    """The gRPC service of one collector.

    `make_session(send)` is called for each stream that brings the token, or for every stream when the token
    is None. `admit` may raise Violation. `dismiss` gets the session back when it is over.
    """

    def __init__(
        self,
        limits: Limits,
        token: str | None,
        *,
        make_session: Callable[[Send], StreamSession],
        admit: Admit,
        dismiss: Callable[[StreamSession], None],
    ) -> None:
        self._token = token
        self._limits = limits
        self._open = self._refusing = 0
        self._make_session = make_session
        self._admit = admit
        self._dismiss = dismiss
        handler = grpc.stream_stream_rpc_method_handler(self._connect)
        self._server = grpc.aio.server(
            handlers=[grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler})],
            options=_options(limits),
            # With room for streams that are refused at once because there are too many.
            maximum_concurrent_rpcs=limits.streams + 2 * limits.refused_streams,
        )

    async def start(self, listen: Address, certificate: Certificate | None) -> int:
        """Start listening and return the port. Raise RuntimeError when it cannot be bound."""
        if certificate is not None:
            port = self._server.add_secure_port(
                str(listen), grpc.ssl_server_credentials([(certificate.key, certificate.chain)])
            )
        elif listen.is_loopback:
            port = self._server.add_secure_port(str(listen), grpc.local_server_credentials())
        else:
            port = self._server.add_insecure_port(str(listen))
        await self._server.start()
        return int(port)

    async def stop(self, secs: float) -> None:
        await self._server.stop(secs)

    async def _connect(self, messages: AsyncIterator[bytes], context: Any) -> None:
        """Serve one stream. Messages are read one at a time, so that no more than one is in memory."""
        given = _given(context.invocation_metadata())
        if self._token is not None and not _brings(self._token, given):
            await self._hold_back()
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, _unwelcome(given))
        if self._open >= self._limits.streams:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "This collector has too many streams.")
        self._open += 1
        try:
            await self._serve(messages, context)
        finally:
            self._open -= 1

    async def _hold_back(self) -> None:
        """Delay the answer to a wrong token, so that guessing takes time.

        The places for delayed streams are few and apart from those for real ones: no number of guesses keeps
        out an agent that has the token.
        """
        if self._refusing >= self._limits.refused_streams:
            return
        self._refusing += 1
        try:
            await asyncio.sleep(self._limits.refused_secs)
        finally:
            self._refusing -= 1

    async def _serve(self, messages: AsyncIterator[bytes], context: Any) -> None:
        session = self._make_session(_sender(context))
        try:
            await session.greet(messages)
            await self._admit(session)
            await session.run(messages)
        except Violation as why:
            wrong = grpc.StatusCode.UNAVAILABLE if why.for_now else grpc.StatusCode.INVALID_ARGUMENT
            await context.abort(wrong, str(why))
        except ConnectionError:
            return  # the agent is gone, so there is no one to answer
        finally:
            self._dismiss(session)
        if session.is_ending:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "The collector ends this stream.")


def _sender(context: Any) -> Send:
    async def send(data: bytes) -> None:
        try:
            await context.write(data)
        except Exception as problem:  # gRPC has several types for a closed stream, not all public
            raise ConnectionError(str(problem)) from problem

    return send


def _given(metadata: Any) -> list[bytes]:
    """Return the tokens that a stream brings; an empty one for an authorization that is no bearer token."""
    found = [value for name, value in metadata or () if name == "authorization"]
    given = [each.encode("utf-8", "replace") if isinstance(each, str) else each for each in found]
    return [each[len(_SCHEME) :] if each[: len(_SCHEME)].lower() == _SCHEME else b"" for each in given]


def _brings(token: str, given: Sequence[bytes]) -> bool:
    return len(given) == 1 and same_token(token, given[0])


def _unwelcome(given: Sequence[bytes]) -> str:
    wrong = token_fault(given[0].decode("latin-1")) if len(given) == 1 and given[0] else None
    more = f" What was sent is not a token: {wrong}." if wrong else ""
    return (
        "The token is missing or wrong for this collector. Set NETDEBUG_TOKEN or NETDEBUG_TOKEN_FILE." + more
    )


def _options(limits: Limits) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", 0),  # two collectors on one port would share the streams
        ("grpc.max_receive_message_length", MESSAGE_BYTES),
        ("grpc.max_send_message_length", MESSAGE_BYTES),
        ("grpc.max_concurrent_streams", 4),  # per connection
        (
            "grpc.max_allowed_incoming_connections",
            2 * (limits.streams + limits.refused_streams),
        ),  # known to gRPC since about 1.70
        ("grpc.max_metadata_size", 8 << 10),
        # The read-ahead of each stream; gRPC's own estimate would be larger.
        ("grpc.http2.lookahead_bytes", 64 << 10),
        ("grpc.http2.bdp_probe", 0),
        # No decompression: a message that is small on the wire could be huge in memory.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", 1),
        ("grpc.keepalive_time_ms", int(1000 * limits.keep_alive_secs)),
        ("grpc.keepalive_timeout_ms", int(1000 * limits.keep_alive_wait_secs)),
        ("grpc.http2.ping_timeout_ms", int(1000 * limits.keep_alive_wait_secs)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # gRPC's default takes a silent peer that pings more than once in five minutes for an abuser.
        ("grpc.http2.min_ping_interval_without_data_ms", 5000),
        ("grpc.server_handshake_timeout_ms", int(1000 * limits.handshake_secs)),
        ("grpc.max_connection_idle_ms", int(1000 * limits.idle_secs)),
    ]
