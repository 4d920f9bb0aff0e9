"""Agents of many trainings that send at once: `senders.py ADDRESS CORES STREAMS BLOCKS BYTES A_SECOND`.

Each stream sends so many blocks of so many bytes, A_SECOND of them in a second, or with 0 as fast as the
collector takes them, and waits until all of it is acknowledged. Prints a line of JSON at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import google_crc32c

from tb_netdebug.transport.addresses import address_of
from tb_netdebug.transport.channel import connected
from tb_netdebug.transport.credentials import TrainerCredentials
from tb_netdebug.transport.stream_pb2 import Begin, Chunk, Down, Hello, Offer, Up

METHOD = "/netdebug.Stream/Connect"
NAME = "events.out.tfevents.1700000000.bench.{}.0000.netdebug"


@dataclass(slots=True)
class Sender:
    """One agent with one training. Times are seconds; `late` is how far behind its time a block was sent."""

    number: int
    blocks: int
    size: int
    a_second: float
    late: list[float] = field(default_factory=list)
    acknowledged: int = 0
    _channel: Any = None
    _call: Any = None
    _window: int = 0
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def join(self, address: str) -> None:
        self._channel = await connected(address_of(address), TrainerCredentials.of(os.environ))
        self._call = self._channel.stream_stream(METHOD)()
        await self._say(
            Up(hello=Hello(version=1, agent=secrets.token_hex(16), host="bench", pid=os.getpid()))
        )
        self._window = (await self._hear()).welcome.window_bytes
        await self._say(Up(begin=Begin(trainer=1, run=["load", f"run{self.number}"])))
        await self._say(Up(offer=Offer(trainer=1, file=1, name=NAME.format(self.number))))
        assert (await self._hear()).WhichOneof("what") == "have"

    async def send(self, began: float) -> None:
        listening = asyncio.ensure_future(self._listen())
        data = secrets.token_bytes(self.size)
        checksum = google_crc32c.value(data)
        for block in range(self.blocks):
            if self.a_second:
                # Not all in the same instant.
                due = began + (block + self.number / 200) / self.a_second
                await asyncio.sleep(due - time.monotonic())
                self.late.append(time.monotonic() - due)
            offset = block * self.size
            await self._wait_for(offset + self.size - self._window)
            await self._say(Up(chunk=Chunk(file=1, offset=offset, data=data, crc32c=checksum)))
        await self._wait_for(self.blocks * self.size)
        listening.cancel()
        self._call.cancel()

    async def _wait_for(self, size: int) -> None:
        if self.acknowledged < size:
            async with self._news:
                await self._news.wait_for(lambda: self.acknowledged >= size)

    async def _listen(self) -> None:
        while True:
            down = await self._hear()
            assert down.WhichOneof("what") == "ack", down
            async with self._news:
                self.acknowledged = down.ack.size
                self._news.notify_all()

    async def _say(self, up: Up) -> None:
        await self._call.write(up.SerializeToString())

    async def _hear(self) -> Any:
        return Down.FromString(await self._call.read())


async def send_all(address: str, streams: int, blocks: int, size: int, a_second: float) -> dict[str, float]:
    senders = [Sender(number, blocks, size, a_second) for number in range(streams)]
    for sender in senders:
        await sender.join(address)
    print("sending", flush=True)
    began = time.monotonic()
    await asyncio.gather(*(sender.send(began) for sender in senders))
    secs = time.monotonic() - began
    late = sorted(value for sender in senders for value in sender.late)
    return {
        "secs": secs,
        "bytes": float(sum(sender.acknowledged for sender in senders)),
        "late_p95": late[len(late) * 95 // 100] if late else 0.0,
        "late_most": late[-1] if late else 0.0,
    }


def main(address: str, cores: str, *numbers: str) -> None:
    if cores:
        os.sched_setaffinity(0, map(int, cores.split(",")))
    streams, blocks, size = map(int, numbers[:3])
    print(json.dumps(asyncio.run(send_all(address, streams, blocks, size, float(numbers[3])))))


if __name__ == "__main__":
    main(*sys.argv[1:])
