"""The agent's side of one stream to the collector, from the Hello to its end."""

from __future__ import annotations

import asyncio
import sys
import time
from itertools import islice
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.bulletin import Bulletin
from tb_netdebug.transport.replica import Replica
from tb_netdebug.transport.roster import Roster
from tb_netdebug.transport.trainee import Trainee
from tb_netdebug.transport.waiting import wait_at_most

WELCOME_SECS = 20.0
# A collector that owes an answer and stays silent for this long is given up.
SILENCE_SECS = 30.0
# Pause for a file that the collector refused for now, or that could not be read.
REST_SECS = 3.0
# Chunks stay below the message limit of 1 MiB, whatever the collector allows.
MOST_CHUNK_BYTES = 1 << 19
PIECE_BYTES = 1 << 17
MOST_CONTROL_BYTES = 8 << 20
# A collector accepts at most 64 files of a trainer (Limits.files).
MOST_FILES = 60
# The longest name of a run, with all its folders, as the collector places it.
MOST_NAME_BYTES = 1 << 13
# Without news from trainers or collector, paused files are checked again after this time.
LOOK_SECS = 1.0
NEVER = float("inf")


class StreamBroken(Exception):  # noqa: N818  # the name says what happened
    """The stream failed in a way that a reconnect may cure."""


class RefusedStream(Exception):  # noqa: N818  # likewise
    """The collector refused the stream, in a sentence of its own."""


class Upstream:
    """The protocol of one stream: `greet`, then `run`, which raises whatever ends the stream.

    `debugs` is true unless the collector has said that no debugger listens there.
    """

    def __init__(self, call: Any, roster: Roster, bulletin: Bulletin) -> None:
        self._call = call
        self._roster = roster
        self._bulletin = bulletin
        self._window_bytes = self._chunk_bytes = 0
        self.debugs = True
        self._unanswered: set[int] = set()
        self._heard = time.monotonic()
        self._controls: dict[int, bytearray] = {}

    async def greet(self, hello: pb.Hello) -> None:
        """Send the Hello and take the Welcome. Raise StreamBroken or RefusedStream."""
        await self._call.write(pb.Up(hello=hello))
        try:
            down = await asyncio.wait_for(self._read(), WELCOME_SECS)
        except asyncio.TimeoutError:
            raise StreamBroken("it does not answer") from None
        if down.WhichOneof("what") == "refusal":
            self._refused(down.refusal)
        if down.WhichOneof("what") != "welcome":
            raise StreamBroken("something other than a NetDebug collector answers there")
        self._window_bytes = down.welcome.window_bytes or MOST_CHUNK_BYTES
        # An older collector does not say, and may have a debugger.
        self.debugs = down.welcome.debugs or not down.welcome.HasField("debugs")
        self._chunk_bytes = min(down.welcome.chunk_bytes or PIECE_BYTES, MOST_CHUNK_BYTES)

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(each) for each in (self._receive(), self._send(), self._watch())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.cancelled():  # by gRPC, not by this agent
                    raise StreamBroken("the stream was cancelled")
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ---- what goes up ------------------------------------------------------------------------------------

    async def _send(self) -> None:
        while True:
            self._roster.news.clear()
            if not await self._round():
                await wait_at_most(self._roster.news, LOOK_SECS)

    async def _round(self) -> bool:
        """Send one chunk of each file that has one; return whether anything was sent."""
        has_sent = False
        now = time.monotonic()
        for trainee in self._roster.all():
            if trainee.rests_until > now:
                continue
            if not trainee.is_begun:
                await self._begin(trainee)
            has_sent |= await self._send_controls(trainee)
            is_at_home = self._roster.is_at_home(trainee)
            if not is_at_home:
                has_sent |= await self._send_files(trainee, now)
            if (trainee.is_done or (is_at_home and trainee.is_settled)) and not trainee.controls:
                await self._write(pb.Up(leave=pb.Leave(trainer=trainee.number)))
                self._roster.finish(trainee)
        return has_sent

    async def _begin(self, trainee: Trainee) -> None:
        trainee.is_begun = True
        begin = pb.Begin(
            trainer=trainee.number,
            run=trainee.join.run,
            rank=trainee.join.rank,
            pid=trainee.join.pid,
            takes_control=trainee.join.takes_control,
            identity="" if self._roster.is_at_home(trainee) else trainee.join.identity,
            resumes=trainee.join.resumes,
        )
        await self._write(pb.Up(begin=begin))
        trainee.tell_connected()

    async def _send_controls(self, trainee: Trainee) -> bool:
        """Send what the debugger had queued at this moment, and no more.

        A trainer that never falls silent would otherwise keep the others waiting for ever.
        """
        waiting = len(trainee.controls)
        for data in islice(iter(trainee.next_control, None), waiting):
            for start in range(0, len(data) or 1, PIECE_BYTES):
                piece = data[start : start + PIECE_BYTES]
                more = start + len(piece) < len(data)
                await self._write(pb.Up(control=pb.Control(trainer=trainee.number, data=piece, more=more)))
        return waiting > 0

    async def _send_files(self, trainee: Trainee, now: float) -> bool:
        has_sent = False
        replicas = list(trainee.replicas.values())
        offered = [each for each in replicas if each.is_offered]
        for replica in replicas:
            if not replica.is_due(now):
                continue
            if not replica.is_offered and len(offered) < MOST_FILES:
                offered.append(replica)
                await self._offer(trainee, replica)
            elif replica.is_offered:
                has_sent |= await self._send_chunk(replica)
        if len(offered) >= MOST_FILES and all(each.is_safe for each in offered):
            await self._make_room(trainee, offered)
        return has_sent

    async def _offer(self, trainee: Trainee, replica: Replica) -> None:
        replica.is_offered = True
        self._unanswered.add(replica.number)
        offer = pb.Offer(
            trainer=trainee.number,
            file=replica.number,
            name=replica.path.name,
            in_side_folder=replica.is_side,
            restart=replica.restarts,
        )
        await self._write(pb.Up(offer=offer))

    async def _send_chunk(self, replica: Replica) -> bool:
        # A full window yields no chunk; acknowledgements open it again.
        room = self._window_bytes - self._roster.unsettled_bytes
        try:
            chunk = replica.chunk(min(self._chunk_bytes, room))
        except OSError as error:
            sys.stderr.write(f"{replica.path} cannot be read: {error}\n")
            replica.rest_until(time.monotonic() + REST_SECS)
            return False
        if chunk is not None:
            await self._write(pb.Up(chunk=chunk))
        return chunk is not None

    async def _make_room(self, trainee: Trainee, offered: list[Replica]) -> None:
        """Announce the trainee anew, for the files that the collector does not have yet.

        The collector limits the files of one trainer; a Leave makes it close those that are complete.
        """
        await self._write(pb.Up(leave=pb.Leave(trainer=trainee.number)))
        for replica in offered:
            replica.put_away()
        trainee.is_begun = False
        self._roster.news.set()

    async def _write(self, up: pb.Up) -> None:
        await self._call.write(up)

    # ---- what comes down ---------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            down = await self._read()
            self._heard = time.monotonic()
            self._take(down)
            self._roster.news.set()

    def _take(self, down: pb.Down) -> None:
        match down.WhichOneof("what"):
            case "have":
                self._have(down.have)
            case "ack":
                replica = self._roster.replica(down.ack.file)
                if replica is not None:
                    replica.acknowledge(down.ack.size)
            case "refusal":
                self._refused(down.refusal)
            case "control":
                self._control(down.control)
            case "placed":
                self._placed(down.placed)

    def _placed(self, placed: pb.Placed) -> None:
        trainee = self._roster.trainee(placed.trainer)
        if trainee is not None and placed.run and placed.ByteSize() <= MOST_NAME_BYTES:
            trainee.take_place(placed.run)

    def _have(self, have: pb.Have) -> None:
        self._unanswered.discard(have.file)
        replica = self._roster.replica(have.file)
        if replica is None or not replica.is_offered:
            return
        try:
            replica.resume(have)
        except OSError as error:
            sys.stderr.write(f"{replica.path} cannot be read: {error}\n")
            replica.rest_until(time.monotonic() + REST_SECS)

    def _refused(self, refusal: pb.Refusal) -> None:
        self._unanswered.discard(refusal.file)
        moment = time.monotonic() + REST_SECS if refusal.for_now else NEVER
        replica = self._roster.replica(refusal.file)
        trainee = self._roster.trainee(refusal.trainer)
        if refusal.file and replica is not None:
            replica.rest_until(moment)
        elif refusal.trainer and trainee is not None and not refusal.for_now:
            trainee.rests_until = NEVER
        elif refusal.for_now:
            raise StreamBroken(refusal.sentence)
        elif not refusal.file and not refusal.trainer:
            raise RefusedStream(refusal.sentence)
        if refusal.for_now:
            self._bulletin.held_up(refusal.sentence)
        else:
            self._bulletin.turned_away(refusal.sentence)

    def _control(self, control: pb.Control) -> None:
        trainee = self._roster.trainee(control.trainer)
        if trainee is None:  # it has left meanwhile, or never existed
            self._controls.pop(control.trainer, None)
            return
        whole = self._controls.setdefault(control.trainer, bytearray())
        whole += control.data
        if len(whole) > MOST_CONTROL_BYTES:
            raise StreamBroken("the collector sent a message for the debugger that is too long")
        if control.more:
            return
        del self._controls[control.trainer]
        trainee.tell(pb.ToTrainer(control=bytes(whole)))

    async def _read(self) -> pb.Down:
        data = await self._call.read()
        if data is grpc.aio.EOF:
            raise StreamBroken("the collector has ended the stream")
        try:
            return pb.Down.FromString(data)
        except DecodeError:
            raise StreamBroken("the collector sent an invalid message") from None

    async def _watch(self) -> None:
        """Raise StreamBroken when answers are due and none arrive."""
        while True:
            await asyncio.sleep(1.0)
            if not self._unanswered and not self._roster.unsettled_bytes:
                self._heard = time.monotonic()
            elif time.monotonic() - self._heard > SILENCE_SECS:
                raise StreamBroken("it no longer answers")
