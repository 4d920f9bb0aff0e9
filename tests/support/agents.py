"""What an agent leaves beside a recording, without an agent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tb_netdebug.core.eventlog.writer.event_file import SIDE_FOLDER
from tb_netdebug.core.eventlog.writer.values import payload
from tb_netdebug.core.records.witness import Ending, Witness, encode_witness
from tests.support.event_files import framed

KILLED = "The process was killed by SIGKILL in the middle of the training."


def sample(time: float, tree_bytes: int = 1 << 30, *, rank: int = 0, ending: Ending | None = None) -> Witness:
    """Three busy processes; with an ending none are left."""
    if ending is not None:
        return Witness(time, rank, 0, 0, 0, 0.0, "", ending)
    return Witness(time, rank, tree_bytes, 3, 21, 1.5, "R")


def ended(
    time: float,
    *,
    well: bool = False,
    code: int | None = None,
    signal: int | None = None,
    memory: bool = False,
) -> Ending:
    return Ending(time, well, code, signal, memory, "It closed its recording." if well else KILLED)


def told(witnesses: Iterable[Witness]) -> bytes:
    return b"".join(
        framed([payload("witness", at, each.time, encode_witness(each))]) for at, each in enumerate(witnesses)
    )


def agent_file(
    folder: Path, witnesses: Iterable[Witness], *, rank: int = 0, secs: int = 1_700_000_000, host: str = "far"
) -> Path:
    """In the place and under the name that an agent gives it."""
    path = folder / SIDE_FOLDER / f"agent{rank}.{secs}.{host}.7.0001.netdebug"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(told(witnesses))
    return path
