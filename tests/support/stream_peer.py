"""Whoever talks to a collector, honestly or not: gRPC streams that carry what a test gives them.

    with Peer() as peer:
        agent = Agent(peer.stream(collector.address))
        welcome = agent.greet()

The streams live in a process of their own, and with gRPC's own client: nothing of ours is between a test and
the wire.
"""

from __future__ import annotations

import base64
import itertools
import queue
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import google_crc32c

from tb_netdebug.transport.stream_pb2 import Begin, Chunk, Control, Down, Hello, Leave, Offer, Up
from tests.support.collector_process import TOKEN, CollectorProcess
from tests.support.spoken_to import SpokenTo, listen

METHOD = "/netdebug.Stream/Connect"
LIMIT_SECS = 60.0
MAIN_NAME = "events.out.tfevents.1700000000.host.1.0000.netdebug"
AGENT = "0123456789abcdef" * 2
PLAIN_OPTIONS = {"how": "local", "ca": "", "name": "", "gzip": False, "is_deaf": False, "metadata": []}

_numbers = itertools.count()


class Peer(SpokenTo):
    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        super().__init__(__file__, env=env)

    def stream(self, address: str, *, token: str | None = TOKEN, **options: Any) -> Stream:
        """What can be told: `how` (local, tls or plain), `ca` and `name` for tls, `metadata`, whether it
        packs its messages (`gzip`), and whether it never takes what is said to it (`is_deaf`)."""
        number = next(_numbers)
        self.do("open", number, address, {**PLAIN_OPTIONS, **options, "token": token})
        return Stream(self, number)


class Stream:
    """A call that has begun."""

    def __init__(self, peer: Peer, number: int) -> None:
        self._peer = peer
        self._number = number

    def send(self, *messages: Up | bytes) -> None:
        """Returns at once; it may never arrive."""
        datas = [each if isinstance(each, bytes) else each.SerializeToString() for each in messages]
        self._peer.do("send", self._number, [base64.b64encode(data).decode() for data in datas])

    def repeat(self, message: Up, count: int) -> None:
        """The same again and again, as fast as it is taken."""
        self._peer.do("repeat", self._number, base64.b64encode(message.SerializeToString()).decode(), count)

    def flood(self, count: int, size: int) -> None:
        """So many whole chunks of file 1, as fast as they are taken."""
        self._peer.do("flood", self._number, count, size)

    def receive(self, secs: float = LIMIT_SECS) -> Down | None:
        """The next message; None when none came in that time. Fails when the stream has ended."""
        told = self._peer.do("receive", self._number, secs)
        assert told is None or isinstance(told, str), f"the stream has ended: {told}"
        return None if told is None else Down.FromString(base64.b64decode(told))

    def outcome(self) -> str:
        """The kind of the next message, or the status by which the stream has ended."""
        told = self._peer.do("receive", self._number, LIMIT_SECS)
        assert told is not None, "nothing came"
        return str(told[0] if isinstance(told, list) else kind_of(told))

    def end(self) -> tuple[str, str]:
        """Waits for the end: the name of the status, and what was said."""
        code, details = self._peer.do("end", self._number, LIMIT_SECS)
        return code, details

    def say_nothing_more(self) -> None:
        self._peer.do("half_close", self._number)

    def cancel(self) -> None:
        self._peer.do("cancel", self._number)


def kind_of(data: str) -> str | None:
    kind: str | None = Down.FromString(base64.b64decode(data)).WhichOneof("what")
    return kind


class Agent:
    """Speaks the protocol as it is meant."""

    def __init__(self, stream: Stream, name: str = AGENT) -> None:
        self.stream = stream
        self.name = name
        self.sizes: dict[int, int] = {}
        """Of each file, how much was acknowledged."""

    def greet(self) -> Any:
        """The Welcome."""
        self.stream.send(Up(hello=Hello(version=1, agent=self.name, host="trainer", pid=7)))
        return self.until("welcome")

    def begin(
        self, *run: str, number: int = 1, rank: int = 0, takes_control: bool = False, identity: str = "",
        resumes: bool = False,
    ) -> None:  # fmt: skip
        begun = Begin(
            trainer=number, run=run, rank=rank, pid=42, takes_control=takes_control, identity=identity,
            resumes=resumes,
        )  # fmt: skip
        self.stream.send(Up(begin=begun))

    def offer(
        self, name: str = MAIN_NAME, *, file: int = 1, trainer: int = 1, aside: bool = False,
        restart: bool = False,
    ) -> Any:  # fmt: skip
        """The Have or the Refusal."""
        self.sizes.pop(file, None)
        offer = Offer(trainer=trainer, file=file, name=name, in_side_folder=aside, restart=restart)
        self.stream.send(Up(offer=offer))
        return self.until("have", "refusal")

    def chunk(self, data: bytes, *, at: int, file: int = 1) -> None:
        self.stream.send(chunk(data, at=at, file=file))

    def acknowledged(self, size: int, *, file: int = 1) -> None:
        """Waits until so much of the file is on the disk."""
        while self.sizes.get(file, 0) < size:
            self.until("ack")

    def leave(self, number: int = 1) -> None:
        self.stream.send(Up(leave=Leave(trainer=number)))

    def control(self, data: bytes, *, number: int = 1, more: bool = False) -> None:
        self.stream.send(Up(control=Control(trainer=number, data=data, more=more)))

    def until(self, *kinds: str) -> Any:
        """The next message of such a kind; those before it are left out."""
        while True:
            down = self.stream.receive()
            assert down is not None, f"no {kinds} came"
            if (kind := down.WhichOneof("what")) == "ack":
                self.sizes[down.ack.file] = max(down.ack.size, self.sizes.get(down.ack.file, 0))
            if kind in kinds:
                return getattr(down, str(kind))


def joined(collector: CollectorProcess, peer: Peer, name: str = AGENT) -> Agent:
    """An agent that has greeted, with a trainer of the run "run"."""
    agent = Agent(peer.stream(collector.address), name)
    agent.greet()
    agent.begin("run")
    return agent


def chunk(data: bytes, *, at: int, file: int = 1) -> Up:
    return Up(chunk=Chunk(file=file, offset=at, data=data, crc32c=google_crc32c.value(data)))


# ---- the other side


class _Call:
    def __init__(self, address: str, options: dict[str, Any]) -> None:
        import grpc

        credentials, settings = _credentials(options)
        settings += [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
        if credentials is None:
            self.channel = grpc.insecure_channel(address, options=settings)
        else:
            self.channel = grpc.secure_channel(address, credentials, options=settings)
        self.outgoing: queue.SimpleQueue[Iterable[bytes] | None] = queue.SimpleQueue()
        self.incoming: queue.SimpleQueue[str | list[str]] = queue.SimpleQueue()
        self.status: list[str] | None = None
        packed = grpc.Compression.Gzip if options["gzip"] else None
        self.call = self.channel.stream_stream(METHOD)(
            itertools.chain.from_iterable(iter(self.outgoing.get, None)),
            metadata=[tuple(pair) for pair in options["metadata"]],
            compression=packed,
        )  # fmt: skip
        if not options["is_deaf"]:
            threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        import grpc

        try:
            for data in self.call:
                self.incoming.put(base64.b64encode(data).decode())
        except grpc.RpcError:
            pass  # the status says the same
        self.incoming.put([self.call.code().name, self.call.details() or ""])
        self.outgoing.put(None)
        self.channel.close()

    def next(self, secs: float) -> str | list[str] | None:
        if self.status is not None:
            return self.status
        try:
            told = self.incoming.get(timeout=secs)
        except queue.Empty:
            return None
        if isinstance(told, list):
            self.status = told
        return told


def _credentials(options: dict[str, Any]) -> tuple[Any, list[tuple[str, Any]]]:
    import grpc

    settings: list[tuple[str, Any]] = []
    if options["how"] == "plain":
        return None, settings
    if options["how"] == "tls":
        roots = Path(options["ca"]).read_bytes() if options["ca"] else None
        secured = grpc.ssl_channel_credentials(root_certificates=roots)
        if options["name"]:
            settings = [("grpc.ssl_target_name_override", options["name"])]
    else:
        secured = grpc.local_channel_credentials()
    if options["token"] is None:
        return secured, settings
    token = grpc.access_token_call_credentials(options["token"])
    return grpc.composite_channel_credentials(secured, token), settings


class _Program:
    def __init__(self) -> None:
        self.calls: dict[int, _Call] = {}

    def open(self, number: int, address: str, options: dict[str, Any]) -> None:
        self.calls[number] = _Call(address, options)

    def send(self, number: int, datas: list[str]) -> None:
        self.calls[number].outgoing.put([base64.b64decode(data) for data in datas])

    def repeat(self, number: int, data: str, count: int) -> None:
        self.calls[number].outgoing.put(itertools.repeat(base64.b64decode(data), count))

    def flood(self, number: int, count: int, size: int) -> None:
        data = bytes(size)
        self.calls[number].outgoing.put(chunk(data, at=size * at).SerializeToString() for at in range(count))

    def receive(self, number: int, secs: float) -> str | list[str] | None:
        return self.calls[number].next(secs)

    def end(self, number: int, secs: float) -> list[str] | None:
        while isinstance(told := self.calls[number].next(secs), str):
            pass
        return told

    def half_close(self, number: int) -> None:
        self.calls[number].outgoing.put(None)

    def cancel(self, number: int) -> None:
        self.calls[number].call.cancel()


if __name__ == "__main__":
    listen(_Program())
