"""The training process seen from outside, by the agent: samples of its processes, and how it ended."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.envelope import check_version, parsed
from tb_netdebug.core.records.errors import require

WITNESS_VERSION = 1
MOST_BYTES = 16 << 10
MOST_LETTERS = 2000
# The fields that have the same name in the message and in `Witness`.
_SEEN = ("time", "rank", "tree_bytes", "processes", "threads", "cpu_share", "state")


@dataclass(frozen=True, slots=True)
class Ending:
    """How a training run ended.

    `well` is what the training process itself reported. A value that nobody could observe is None, and the
    sentence says so.
    """

    time: float
    well: bool
    exit_code: int | None
    signal: int | None
    out_of_memory: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Witness:
    """One sample of the training's process tree; the last one has an `ending`.

    `tree_bytes`, `processes` and `threads` cover the training and all of its descendants. `cpu_share` is the
    number of processors they have kept busy since the previous sample, `state` the operating system's letter
    for the state of the main thread.
    """

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
    """Decode a sample; raise UnsupportedVersion or DamagedBlock."""
    require(len(payload) <= MOST_BYTES, "a sample of the processes is too big")
    message = parsed(payload, pb.Witness())
    check_version("sample of the processes", message.version, known=WITNESS_VERSION)
    require(math.isfinite(message.time), "a sample of the processes has no time")
    require(math.isfinite(message.cpu_share), "a sample of the processes has no share of the processors")
    require(len(message.state) <= 1, "a sample of the processes has an invalid state")
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
    require(len(message.sentence) <= MOST_LETTERS, "the description of how the training ended is too long")
    return Ending(
        time=message.time,
        well=message.well,
        exit_code=message.exit_code if message.HasField("exit_code") else None,
        signal=message.signal if message.HasField("signal") else None,
        out_of_memory=message.out_of_memory,
        sentence=message.sentence,
    )
