"""The agent's connection to the collector: connects, runs a stream, and reconnects after a failure."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from tb_netdebug.core.records.visible import visible
from tb_netdebug.transport import discovery
from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.addresses import Address
from tb_netdebug.transport.bulletin import Bulletin
from tb_netdebug.transport.channel import connected
from tb_netdebug.transport.credentials import CredentialsError, TrainerCredentials
from tb_netdebug.transport.roster import Roster
from tb_netdebug.transport.upstream import RefusedStream, StreamBroken, Upstream

METHOD = "/netdebug.Stream/Connect"
FIRST_RETRY_SECS, LAST_RETRY_SECS = 0.25, 5.0
# A refusal takes a person to mend (a wrong token, say), who may be about to.
REFUSED_RETRY_SECS = 5.0
# When a stream ends during a write, gRPC loses the reason and reports INTERNAL. So the agent soon
# reconnects, at most this often in a row, to learn it.
MOST_CUT_SHORT = 20
_REFUSING = frozenset({grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED})


class Uplink:
    """The reconnect loop of an agent, with exponential back-off; `run` ends only when it is cancelled."""

    def __init__(self, address: Address, roster: Roster, bulletin: Bulletin) -> None:
        self._address = address
        self._roster = roster
        self._bulletin = bulletin
        self._hello = pb.Hello(
            version=1, agent=secrets.token_hex(16), host=socket.gethostname()[:255], pid=os.getpid()
        )
        self._retry_secs = FIRST_RETRY_SECS
        self._last_reason = ""
        self._cut_short = 0

    async def run(self) -> None:
        while True:
            least_secs = 0.0
            try:
                await self._stream()
            except (CredentialsError, RefusedStream) as error:
                self._bulletin.refused(str(error))
                least_secs = REFUSED_RETRY_SECS
            except grpc.aio.AioRpcError as error:
                least_secs = self._failed(error)
            except (StreamBroken, OSError) as error:
                self._bulletin.lost(str(error))
            self._roster.forget_stream()
            self._roster.news.set()
            # With jitter, so that many agents do not reconnect at the same moment.
            await asyncio.sleep(max(least_secs, self._retry_secs) * random.uniform(0.5, 1.5))
            self._retry_secs = min(2 * self._retry_secs, LAST_RETRY_SECS)

    async def _stream(self) -> None:
        """Connect once and run the stream; raise what ended it."""
        channel = await connected(self._address, TrainerCredentials.of(os.environ))
        try:
            # No response_deserializer: gRPC would log a traceback for each message that cannot be parsed.
            open_stream: Any = channel.stream_stream(METHOD, request_serializer=pb.Up.SerializeToString)
            call = open_stream()
            try:
                upstream = Upstream(call, self._roster, self._bulletin)
                await upstream.greet(self._hello)
                self._roster.logdir_there = self._logdir_there()
                self._bulletin.connected(debugs=upstream.debugs)
                self._retry_secs = FIRST_RETRY_SECS
                self._cut_short = 0
                await upstream.run()
            except (grpc.aio.UsageError, asyncio.InvalidStateError):  # it ended before the first write
                await self._explain(call)
            finally:
                call.cancel()
        finally:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(channel.close(), 5.0)

    async def _explain(self, call: Any) -> None:
        """Raise the reason that the collector gave when it ended the stream."""
        reason = await call.details() or "the stream has ended"
        raise RefusedStream(reason) if await call.code() in _REFUSING else StreamBroken(reason)

    def _logdir_there(self) -> Path | None:
        # A collector here may write into the very folder of a run, which then has nothing to send.
        found = discovery.find(self._address.port) if self._address.is_loopback else None
        return Path(found.logdir).resolve() if found is not None else None

    def _failed(self, error: grpc.aio.AioRpcError) -> float:
        """Report a gRPC error, and return how many seconds to wait at least before the next attempt."""
        reason = error.details() or error.code().name
        if error.code() in _REFUSING:
            self._bulletin.refused(reason)
            return REFUSED_RETRY_SECS
        if error.code() == grpc.StatusCode.INTERNAL and self._cut_short < MOST_CUT_SHORT:
            self._cut_short += 1
            self._retry_secs = FIRST_RETRY_SECS
            return 0.0
        # gRPC lists what it has tried; the last error is the one that helps a person.
        self._bulletin.lost(reason.rpartition("last error: ")[2])
        if error.code() != grpc.StatusCode.UNAVAILABLE and reason != self._last_reason:
            self._last_reason = reason
            sys.stderr.write(f"{time.strftime('%F %T')} {error.code().name}: {visible(reason)}\n")
        return 0.0
