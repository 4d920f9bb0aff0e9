"""What the agent saw of a training from outside: samples of its processes, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.envelope import check_version, parsed
from tb_netdebug.core.records.errors import require

WITNESS_VERSION = 1
MOST_BYTES = 16 << 10
MOST_LETTERS = 2000
# What the message and the class below call the same.
_SEEN = ("time", "rank", "tree_bytes", "processes", "threads", "cpu_share", "state")


@dataclass(frozen=True, slots=True)
class Ending:
    """`well` is said by the training itself. What nobody could see is None, and the sentence says so."""

    time: float
    well: bool
    exit_code: int | None
    signal: int | None
    out_of_memory: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Witness:
    """`tree_bytes`, `processes` and `threads` are those of the training with all processes below it;
    `cpu_share` is how many processors they have kept busy since the sample before, `state` the letter that
    the system has for the main thread. The last one has an ending."""

    time: float
    rank: int
    tree_bytes: int
    processes: int
    threads: int
    cpu_share: float
    state: str
    ending: Ending | None = None


def encode_witness(witness: Witness) -> bytes:
    seen = {name: getattr(witness, name) for name in _SEEN}
    message = pb.Witness(version=WITNESS_VERSION, **seen)
    if witness.ending is not None:
        message.ending.CopyFrom(_message(witness.ending))
    return message.SerializeToString()


def decode_witness(payload: bytes) -> Witness:
    """Raises UnsupportedVersion or DamagedBlock."""
    require(len(payload) <= MOST_BYTES, "a sample of the processes is too big")
    message = parsed(payload, pb.Witness())
    check_version("sample of the processes", message.version, known=WITNESS_VERSION)
    require(math.isfinite(message.time), "a sample of the processes has no time")
    require(math.isfinite(message.cpu_share), "a sample of the processes has no share of the processors")
    require(len(message.state) <= 1, "a sample of the processes has a state that is none")
    seen = {name: getattr(message, name) for name in _SEEN}
    return Witness(**seen, ending=_ending(message.ending) if message.HasField("ending") else None)


def _message(ending: Ending) -> pb.Ending:
    message = pb.Ending(
        time=ending.time,
        well=ending.well,
        out_of_memory=ending.out_of_memory,
        sentence=ending.sentence[:MOST_LETTERS],
    )
    if ending.exit_code is not None:
        message.exit_code = ending.exit_code
    if ending.signal is not None:
        message.signal = ending.signal
    return message


def _ending(message: pb.Ending) -> Ending:
    require(math.isfinite(message.time), "the end of a training has no time")
    require(len(message.sentence) <= MOST_LETTERS, "the end of a training is told in too many words")
    return Ending(
        time=message.time,
        well=message.well,
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        signal=message.signal if message.HasField("signal") else None,
        out_of_memory=message.out_of_memory,
        sentence=message.sentence,
    )
