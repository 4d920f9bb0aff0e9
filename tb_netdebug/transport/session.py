"""One agent's stream at the collector: what arrives, and what is answered. Nothing here knows of gRPC.

A file is refused by its number: chunks of it that are still under way are then ignored, until it is offered
again. An agent that breaks the protocol loses its stream (`Violation`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import google_crc32c
from google.protobuf.message import DecodeError

from tb_netdebug.transport.acknowledger import Acknowledger
from tb_netdebug.transport.arrivals import Arrival, StreamArrivals, Totals, TrainerView, Violation
from tb_netdebug.transport.disk import Disk
from tb_netdebug.transport.limits import Limits
from tb_netdebug.transport.places import RefusedFile, checked_identity, place_of, run_of
from tb_netdebug.transport.received_files import LandedFile, ReceivedFiles
from tb_netdebug.transport.stream_pb2 import Ack, Control, Down, Have, Placed, Refusal, Up, Welcome

VERSION = 1
_AGENT = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LONGEST_HOST = 255

Send = Callable[[bytes], Awaitable[None]]
OnControl = Callable[[str, bytes], None]


class StreamSession:
    """The protocol of one stream, on the collector's event loop.

    `send` may block while the agent does not read. With `debugs` the agent is told that a debugger listens at
    `on_control`.
    """

    def __init__(
        self, landing: ReceivedFiles, disk: Disk, limits: Limits, *, collector: str, debugs: bool, send: Send,
        on_control: OnControl, on_left: Callable[[], None], on_refused: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.agent = ""
        self.host = ""
        self.totals = Totals()
        self.unsent_bytes = 0
        self._landing = landing
        self._disk = disk
        self._limits = limits
        self._collector = collector
        self._debugs = debugs
        self._write = send
        self._on_control = on_control
        self._on_left = on_left
        self._on_refused = on_refused
        self._writing = asyncio.Lock()
        self._controlling = asyncio.Lock()
        self._arrivals = StreamArrivals(limits)
        self._acknowledger = Acknowledger(disk, limits, self._synced, self._file_refused)
        self._is_silent = False
        self._ending = asyncio.Event()
        self.ended = asyncio.Event()

    # ---- its life

    async def greet(self, messages: AsyncIterator[bytes]) -> None:
        """Take the Hello, which has to arrive soon. Raise Violation."""
        try:
            first = await asyncio.wait_for(_next(messages), self._limits.hello_secs)
        except asyncio.TimeoutError:
            raise Violation("No Hello arrived.") from None
        hello = _parsed(first or b"").hello
        if not hello.version or not _AGENT.fullmatch(hello.agent) or len(hello.host) > _LONGEST_HOST:
            raise Violation("A stream must begin with a Hello that has version, agent and host.")
        self.agent, self.host = hello.agent, hello.host

    async def run(self, messages: AsyncIterator[bytes]) -> None:
        """Serve the stream until the agent has closed it, or until `end`. Raise Violation.

        In any case everything accepted is synced and, if the agent still reads, acknowledged.
        """
        tasks = [
            asyncio.ensure_future(work)
            for work in (self._serve(messages), self._acknowledger.run(), self._ending.wait())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            # Shielded: files are synced and closed even when this task is cancelled.
            with suppress(asyncio.CancelledError):
                await asyncio.shield(self._finish(tasks))

    def end(self, *, silently: bool = False) -> None:
        """Ask the session to end, from the loop; `ended` is set when its files are synced and closed.

        With `silently` nothing more is sent: the agent has come back on another stream and need not be waited
        for.
        """
        self._is_silent |= silently
        self._ending.set()

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    async def _finish(self, tasks: Sequence[asyncio.Future[Any]]) -> None:
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            with suppress(ConnectionError):
                await self._acknowledger.settle()
        finally:
            for file in self._arrivals.all_files():
                await self._disk.slow(file.close)
            self.ended.set()

    # ---- what comes

    async def _serve(self, messages: AsyncIterator[bytes]) -> None:
        welcome = Welcome(
            version=VERSION,
            collector=self._collector,
            window_bytes=self._limits.window_bytes,
            chunk_bytes=self._limits.chunk_bytes,
            debugs=self._debugs,
        )
        await self._send(Down(welcome=welcome))
        async for data in messages:
            await self._take(_parsed(data))

    async def _take(self, up: Up) -> None:
        match up.WhichOneof("what"):
            case "chunk":
                await self._chunk(up)
            case "begin":
                await self._begin(up)
            case "offer":
                await self._offer(up)
            case "leave":
                await self._leave(up.leave.trainer)
            case "control":
                self._control(up.control)
            case "hello":
                raise Violation("A stream must have only one Hello.")
            case _:
                return  # a message of a newer version

    async def _begin(self, up: Up) -> None:
        begin = up.begin
        arrival = Arrival(
            number=begin.trainer,
            key=f"{self.agent}/{begin.trainer}",
            rank=begin.rank,
            pid=begin.pid,
            takes_control=begin.takes_control,
            resumes=begin.resumes,
        )
        self._arrivals.add(arrival)
        try:
            arrival.identity = checked_identity(begin.identity)
            arrival.asked = run_of(begin.run, self._limits)
            await self._place(arrival)
        except RefusedFile as why:
            if not why.for_now:  # for now: then each offer tries to place the run again
                arrival.asked = ()
                await self._refuse(why, trainer=arrival.number)
                return
        self.totals += Totals(trainers=1)

    async def _place(self, arrival: Arrival) -> tuple[str, ...]:
        """Return the name of the run here. Raise RefusedFile.

        It is looked up anew each time, because its folder may have been deleted.
        """
        run = arrival.asked
        if arrival.identity:
            run = await self._disk.slow(self._claim, arrival)
        if run != arrival.run:
            arrival.run = run
            if arrival.identity:
                await self._send(Down(placed=Placed(trainer=arrival.number, run=run)))
        return run

    def _claim(self, arrival: Arrival) -> tuple[str, ...]:
        return self._landing.claim(
            arrival.asked, arrival.identity, resumes=arrival.resumes, limits=self._limits
        )

    async def _offer(self, up: Up) -> None:
        offer = up.offer
        arrival = self._arrivals.of_trainer(offer.trainer)
        if not arrival.asked:
            return
        before = self._arrivals.offer(arrival, offer.file)
        if before is not None:  # offered again: what came under this number is synced and closed first
            await self._acknowledger.settle()
            await self._disk.slow(before.close)
        file = None
        try:
            run = await self._place(arrival)
            place = place_of(run, offer.name, in_side_folder=offer.in_side_folder)
            file = await self._opened(lambda: self._landing.open(place, restart=offer.restart))
            self._arrivals.open(offer.file, file)
            size = await self._disk.slow(file.sync)
            tail_bytes, tail = await self._disk.slow(file.tail_checksum, size, self._limits.window_bytes)
        except RefusedFile as why:
            await self._file_refused(offer.file, file, why)
        else:
            have = Have(file=offer.file, size=size, tail_bytes=tail_bytes, tail_crc32c=tail)
            await self._send(Down(have=have))

    async def _opened(self, opening: Callable[[], LandedFile]) -> LandedFile:
        """Open a file on a disk thread; close it if the stream ends before that is done."""
        future = asyncio.ensure_future(self._disk.slow(opening))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(_close_result)
            raise

    async def _chunk(self, up: Up) -> None:
        chunk = up.chunk
        file = self._arrivals.file(chunk.file)
        if file is None:
            return
        if len(chunk.data) > self._limits.chunk_bytes:
            raise Violation(f"A chunk has at most {self._limits.chunk_bytes} bytes.")
        try:
            if google_crc32c.value(chunk.data) != chunk.crc32c:
                raise RefusedFile("A chunk arrived damaged.", for_now=True)
            await self._disk.quick(file.append, chunk.offset, chunk.data)
        except RefusedFile as why:
            await self._file_refused(chunk.file, file, why)
        else:
            self.totals += Totals(bytes=len(chunk.data))
            if self._arrivals.is_open(chunk.file, file):  # the disk may have failed meanwhile
                self._arrivals.note(chunk.file, len(chunk.data))
                self._acknowledger.note(chunk.file, file, len(chunk.data))

    async def _leave(self, number: int) -> None:
        arrival = self._arrivals.of_trainer(number)
        await self._acknowledger.settle()
        for file in self._arrivals.remove(arrival):
            await self._disk.slow(file.close)
        self._on_left()

    def _control(self, control: Control) -> None:
        arrival = self._arrivals.of_trainer(control.trainer)
        whole = self._arrivals.control(arrival, control.data, is_last=not control.more)
        if whole is not None and arrival.takes_control:
            self._on_control(arrival.key, whole)

    # ---- what goes

    async def _synced(self, number: int, size: int) -> None:
        await self._send(Down(ack=Ack(file=number, size=size)))

    async def _file_refused(self, number: int, file: LandedFile | None, why: RefusedFile) -> None:
        """Refuse a file, after syncing and acknowledging what was written before."""
        if file is not None:
            if not self._arrivals.is_open(number, file):
                return  # already refused, or offered again since
            self._arrivals.refuse(number)
            self._acknowledger.forget(number)
            with suppress(RefusedFile):
                await self._synced(number, await self._disk.slow(file.sync))
            await self._disk.slow(file.close)
        await self._refuse(why, file=number)

    async def _refuse(self, why: RefusedFile, *, trainer: int = 0, file: int = 0) -> None:
        self._on_refused(str(why))
        refusal = Refusal(sentence=str(why), for_now=why.for_now, trainer=trainer, file=file)
        await self._send(Down(refusal=refusal))

    async def control(self, number: int, data: bytes) -> None:
        """Send bytes to a trainer in pieces that fit; the pieces of two messages never mix."""
        async with self._controlling:
            for begin in range(0, len(data) or 1, self._limits.chunk_bytes):
                piece = data[begin : begin + self._limits.chunk_bytes]
                more = begin + len(piece) < len(data)
                await self._send(Down(control=Control(trainer=number, data=piece, more=more)))

    async def _send(self, down: Down) -> None:
        if self._is_silent:
            raise ConnectionError("the agent has another stream")
        async with self._writing:
            await self._write(down.SerializeToString())

    def has_room(self, number: int, size: int) -> bool:
        """Return whether a trainer takes control and `size` more bytes may be queued for it.

        May be called from any thread.
        """
        is_armed = any(each.number == number and each.takes_control for each in self.trainers())
        return is_armed and self.unsent_bytes + size <= self._limits.control_bytes

    def trainers(self) -> list[TrainerView]:
        """Return the trainers of this stream, from any thread."""
        return self._arrivals.views(self.agent, self.host)


async def _next(messages: AsyncIterator[bytes]) -> bytes | None:
    async for data in messages:
        return data
    return None


def _parsed(data: bytes) -> Up:
    try:
        return Up.FromString(data)
    except DecodeError:
        raise Violation("This is not a message of the protocol.") from None


def _close_result(opened: asyncio.Future[LandedFile]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        opened.result().close()
