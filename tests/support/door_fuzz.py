"""What strangers send to the debugger: by HTTP to TensorBoard, by gRPC to a collector or to an agent."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from google.protobuf.message import Message

from tb_netdebug.transport.stream_pb2 import (
    Ack,
    Begin,
    Control,
    Down,
    Have,
    Hello,
    Leave,
    Offer,
    Refusal,
    Up,
    Welcome,
)
from tests.support.frame_fuzz import ODD, RAW, call, changed, odd, of_hub, of_trainer
from tests.support.scripted_session import ScriptedSession
from tests.support.stream_peer import MAIN_NAME, chunk
from tests.support.tensorboard_process import OURS

NUMBERS = (0, 1, 1, 1, 2, 3, 2**31, 2**32 - 1)
SIZES = (0, 1, 17, 4096, 1 << 20, 2**63, 2**64 - 1)
LENGTHS = ("-1", "+5", " 5", "0x5", "5, 5", "1e3", "9" * 30, "", "99999", "\u0665")
BIG = 2 << 20
# A collector takes 4 MiB of one frame, an agent 8 MiB.
MANY_PIECES, MANY_TRAINERS, PIECE = 40, 400, 256 << 10


# ---- HTTP to TensorBoard


def page_request(rng: random.Random, host: str, token: str, key: str) -> bytes:
    """A request as our page sends it, but for some of its lines and some of its body."""
    route = rng.choice(["attend", "call", "call", "call", "tensor"])
    body = damaged(json.dumps(changed(_asked(route, key, rng), rng, share=0.05)).encode(), rng)
    headers = [
        ("Host", host), ("Origin", f"http://{host}"), ("Content-Type", "application/json"),
        ("X-NetDebug", "1"), ("X-NetDebug-Token", token), ("Content-Length", str(len(body))),
    ]  # fmt: skip
    if rng.random() < 0.3:
        headers = _disturbed(headers, rng)
    method = "POST" if rng.random() < 0.97 else rng.choice(["GET", "PUT", "OPTIONS", "post", "POST ", ""])
    lines = [f"{method} {OURS}debugger/{route} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogatepass") + body


def _asked(route: str, key: str, rng: random.Random) -> dict[str, Any]:
    client = {"client": rng.choice(["a" * 16, "a" * 16, "b" * 16])}
    if route == "attend":
        wish = rng.choice([{}, {"take": key}, {"release": key}])
        return {**client, "label": "Anna", "sessions": [key], **wish}
    if route == "tensor":
        return {
            **client,
            "session": key,
            "name": "weight:0.weight",
            "slice": rng.choice([None, "0:2", "[:1]"]),
        }
    asked = call(rng)
    return {**client, "session": key, "verb": asked["verb"], "arguments": asked["arguments"]}


def _disturbed(headers: list[tuple[str, str]], rng: random.Random) -> list[tuple[str, str]]:
    at = rng.randrange(len(headers))
    name, value = headers[at]
    other = rng.choice(LENGTHS) if name == "Content-Length" else _text(rng)
    ways: list[list[tuple[str, str]]] = [
        [], [(name, value), (name, value)], [(name, value), (name, other)], [(name, other)],
        [(name.upper(), value)], [(name, f"{value}\r\n more")], [("Transfer-Encoding", "chunked")],
        [(name, value), ("Expect", "100-continue")], [(name + " ", value)], [(other[:200], value)],
    ]  # fmt: skip
    return [*headers[:at], *rng.choice(ways), *headers[at + 1 :]]


def _text(rng: random.Random) -> str:
    return str(rng.choice([each for each in ODD if not isinstance(each, int) or abs(each) < 10**100]))


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Now and then with other bytes in it, or cut off."""
    chance = rng.random()
    if chance < 0.05:
        at = rng.randrange(len(data) + 1)
        return data[:at] + rng.choice(RAW) + data[at:]
    if chance < 0.1 and data:
        changes = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changes[rng.randrange(len(data))] = rng.randrange(256)
        return bytes(changes)
    if chance < 0.13:
        return data[: rng.randrange(len(data) + 1)]
    return data


# ---- gRPC to a collector


def agent_stream(rng: random.Random) -> list[bytes]:
    """All that an agent says in a stream: its trainings talk to the debugger, in a wild order."""
    session = ScriptedSession(
        lambda data: None, run=rng.choice(["bad", "doors", "x/y"]), pid=rng.randint(2, 4)
    )
    hello = Up(hello=Hello(version=rng.choice([1, 1, 99]), agent=f"{rng.getrandbits(128):032x}", host="box"))
    begin = Up(begin=Begin(trainer=1, run=["bad"], pid=7, takes_control=True))
    said: list[Message] = [hello, begin]
    for _ in range(rng.randint(1, 20)):
        said += _of_agent(rng, session)
    if rng.random() < 0.2:
        rng.shuffle(said)
    return [_packed(each, rng) for each in said]


def _of_agent(rng: random.Random, session: ScriptedSession) -> Sequence[Message]:
    number = rng.choice(NUMBERS) if rng.random() < 0.1 else 1
    chance = rng.random()
    if chance < 0.75:
        frame = of_trainer(rng, session.about, session.state(), [*range(1, 5)])
        frame = frame.replace(b'"protocol":1', b'"protocol":%d' % rng.choice(NUMBERS))
        return _in_pieces(frame, number, rng, Up)
    if chance < 0.77:
        return [Up(control=Control(trainer=1, data=bytes(PIECE), more=True))] * MANY_PIECES
    return [
        rng.choice(
            [
                Up(hello=Hello(version=1, agent="e" * 32)),
                Up(
                    begin=Begin(trainer=number, run=[str(odd(rng))[:300].encode("utf-8", "replace").decode()])
                ),
                Up(begin=Begin(trainer=rng.randint(1, 9), run=["bad"], rank=number, takes_control=True)),
                Up(offer=Offer(trainer=number, file=number, name=rng.choice([MAIN_NAME, "../x"]))),
                chunk(rng.randbytes(50), at=rng.choice(SIZES), file=number),
                Up(leave=Leave(trainer=number)),
                Up(),
            ]
        )
    ]


# ---- gRPC to an agent


def collector_stream(rng: random.Random, *, greets: bool = True) -> list[bytes]:
    """All that a collector says in a stream."""
    welcome = Welcome(
        version=rng.choice([1, 1, 99]), collector="c" * 32, window_bytes=rng.choice([1 << 20, *SIZES]),
        chunk_bytes=rng.choice([1 << 16, 0, 1, 2**32 - 1]), debugs=True,
    )  # fmt: skip
    said: list[Message] = [Down(welcome=welcome)] if greets or rng.random() < 0.8 else []
    for _ in range(rng.randint(1, 40)):
        said += _of_collector(rng)
    if rng.random() < 0.1:
        rng.shuffle(said)
    return [_packed(each, rng) for each in said]


def _of_collector(rng: random.Random) -> Sequence[Message]:
    number = rng.choice(NUMBERS)
    chance = rng.random()
    if chance < 0.6:
        return _in_pieces(of_hub(rng), 1 if rng.random() < 0.8 else number, rng, Down)
    if chance < 0.62:
        return [Down(control=Control(trainer=1, data=bytes(PIECE), more=True))] * MANY_PIECES
    if chance < 0.63:  # beginnings of as many messages
        return [
            Down(control=Control(trainer=at, data=bytes(PIECE), more=True)) for at in range(MANY_TRAINERS)
        ]
    size, tail = rng.choice(SIZES), rng.choice(SIZES)
    sentence = str(odd(rng)).encode("utf-8", "replace").decode()
    return [
        rng.choice(
            [
                Down(welcome=Welcome(version=2)),
                Down(have=Have(file=number, size=size, tail_bytes=tail, tail_crc32c=rng.getrandbits(32))),
                Down(ack=Ack(file=number, size=size)),
                Down(refusal=Refusal(sentence=sentence, for_now=True, file=number)),
                Down(refusal=Refusal(sentence=sentence, for_now=True, trainer=number)),
                Down(),
            ]
        )
    ]


def _in_pieces(frame: bytes, trainer: int, rng: random.Random, way: Any) -> list[Message]:
    """A frame as one message or several, of which now and then one is missing or comes twice."""
    middle = rng.randrange(len(frame) + 1)
    pieces = [frame] if rng.random() < 0.7 else [frame[:middle], frame[middle:]]
    said = [
        way(control=Control(trainer=trainer, data=piece, more=at + 1 < len(pieces)))
        for at, piece in enumerate(pieces)
    ]
    chance = rng.random()
    if chance < 0.03:
        said.pop()
    return said * 2 if chance > 0.97 else said


def _packed(message: Message, rng: random.Random) -> bytes:
    chance = rng.random()
    if chance < 0.005:
        return bytes(BIG)
    return damaged(message.SerializeToString(), rng) if chance < 0.1 else message.SerializeToString()
