"""Messages of the debugger as no end of ours would send them: with other bytes, and fields of any type."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

from tb_netdebug.debugger.protocol.verbs import VERBS

_LENGTH = struct.Struct("<I")
ODD: Sequence[Any] = (
    None, True, False, 0, -1, 1, 2**31, -(2**63), 2**64, 10**400, 0.5, -0.0, 1e308, "", "a", "NaN",
    "Infinity", "-Infinity", "\ud800", "\x00\x1b[2J\u202e", "x" * 5000, "../../etc/passwd", "(a+)+$",
    ".*.*.*.*\\b!", "weight:", "weight:head.weight", "head", "forward", "paused", "over", [], [[]],
    [None] * 50, {}, {"a": {}}, {"": None},
)  # fmt: skip
RAW = (b"1e999", b"-1e999", b"NaN", b"1" * 5000, b'"\xff\xfe"', b"[" * 3000, b'{"a":' * 3000)


def odd(rng: random.Random) -> Any:
    value = rng.choice(ODD)
    return [value, rng.choice(ODD)] if rng.random() < 0.1 else value


def changed(value: Any, rng: random.Random, share: float = 0.15) -> Any:
    """Now and then a part of it is another thing, gone, or there for the first time."""
    if rng.random() < share:
        return odd(rng)
    if isinstance(value, dict):
        found = {key: changed(inner, rng, share) for key, inner in value.items() if rng.random() > share / 4}
        return {**found, "more": odd(rng)} if rng.random() < share / 2 else found
    if isinstance(value, list):
        return [changed(inner, rng, share) for inner in value] * (1 + 30 * (rng.random() < share / 10))
    return value


def frame_of(head: Any, rng: random.Random, attachment: bytes = b"") -> bytes:
    """A frame; now and then its bytes, too, are changed."""
    header = json.dumps(head).encode()
    if rng.random() < 0.05:
        at = rng.randrange(max(len(header), 1))
        header = header[:at] + rng.choice(RAW) + header[at:]
    data = bytearray(_LENGTH.pack(len(header)) + header + attachment)
    if rng.random() < 0.1:
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.05:
        del data[rng.randrange(len(data)) :]
    return bytes(data)


def call(rng: random.Random) -> dict[str, Any]:
    """Of a verb that there is, with arguments that may be meant."""
    verb = rng.choice(list(VERBS))
    meant: dict[str, Any] = {
        "by": "layer", "kind": "weight", "statistic": "max", "comparison": ">", "threshold": 1e9,
        "layer": "nobody", "tensors": "head", "name": "weight:head.weight", "text": "1 + 1", "optimizer": 0,
        "value": 0.1, "id": rng.randint(0, 5), "phase": "forward", "wait": 0.0, "is_on": True, "most": 10,
    }  # fmt: skip
    arguments = {name: meant[name] for name in VERBS[verb].arguments if name in meant and rng.random() < 0.8}
    return {"type": "call", "id": rng.randint(0, 10**6), "client": "c", "verb": verb, "arguments": arguments}


def of_hub(rng: random.Random) -> bytes:
    """What a hostile hub says to a training."""
    lease = {"type": "lease", "clients": rng.choice([0, 1, 3]), "secs": 15.0}
    head = lease if rng.random() < 0.15 else call(rng)
    return frame_of(changed(head, rng), rng, rng.randbytes(rng.choice([0, 0, 10])))


def of_trainer(
    rng: random.Random, session: dict[str, Any], state: dict[str, Any], ids: Sequence[int]
) -> bytes:
    """What a hostile training says to the hub; `ids` are those of calls that wait for an answer."""
    value: Any = rng.choice(
        [state, [state], {"size": 3, "dtype": "f4", "shape": [3], "is_last": True}, [], None]
    )
    heads: list[dict[str, Any]] = [
        {"type": "hello", "protocol": 1, "session": session, "state": state},
        {"type": "state", "state": state},
        {"type": "answer", "id": rng.choice([*ids, 0, -1]), "value": value},
        {"type": "answer", "id": rng.choice([*ids, 0]), "error": "no", "kind": "refused"},
        {"type": "bye"},
    ]
    return frame_of(changed(rng.choice(heads), rng), rng, rng.randbytes(rng.choice([0, 0, 100])))
