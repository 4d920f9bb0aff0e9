"""How many trainings one collector takes in."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.progress import Session
from bench.results import Column, Part, Promise, Row, Table

TITLE = "The collector"
METHOD = (
    "`netdebug collect` runs on one core of this machine, with loopback and a token, and writes to its disk; "
    "on the other cores 200 agents send to it, each by a gRPC stream of its own. Steady: each sends ten "
    "blocks of 4 kB a second; how late a block leaves its agent shows whether the collector keeps up. Flat "
    "out: each sends five megabytes in pieces of 50 kB as fast as they are taken; the time ends when "
    "everything is synced and acknowledged. Processor time is that of the collector alone, and memory the "
    "most that was resident, looked at ten times a second. The headline of each is the worst of the rounds."
)
STREAMS = 200
BLOCKS_A_SECOND = 10
BLOCK_BYTES = 4_000
PIECE_BYTES, PIECES = 50_000, 100
STEADY_SECS = 20
QUICK_STEADY_SECS = 5
ROUNDS = 3
MB_A_SECOND = 100.0
MOST_MB = 500.0
MOST_LATE_MS = 100.0
SENDERS = Path(__file__).with_name("senders.py")
PINNED = (
    "import os, sys\nif core := sys.argv.pop(1): os.sched_setaffinity(0, [int(core)])\n"
    "from tb_netdebug.cli import main\nsys.exit(main(sys.argv[1:]))"
)


class CollectorFailedError(RuntimeError):
    """It did not listen, or not everything arrived, so the numbers mean nothing."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a round has measured; `core` is the share of one core that the collector used."""

    secs: float
    megabytes: float
    core: float
    resident_mb: float
    late_p95_ms: float
    late_most_ms: float

    @property
    def speed(self) -> float:
        return self.megabytes / self.secs


def measure(session: Session) -> Part:
    began = time.monotonic()
    rounds = session.choose(full=ROUNDS, quick=1)
    secs = QUICK_STEADY_SECS if session.is_quick else STEADY_SECS
    steady, flat_out = [], []
    for number in range(rounds):
        session.progress.show(f"{TITLE}: steady, round {number + 1} of {rounds}")
        steady.append(loaded(session, BLOCKS_A_SECOND * secs, BLOCK_BYTES, BLOCKS_A_SECOND))
        session.progress.show(f"{TITLE}: flat out, round {number + 1} of {rounds}")
        flat_out.append(loaded(session, PIECES, PIECE_BYTES, 0))
    return Part(
        "collector", TITLE, METHOD, rounds, time.monotonic() - began, promises(steady, flat_out),
        [table_of(steady, flat_out)],
    )  # fmt: skip


def promises(steady: Sequence[Load], flat_out: Sequence[Load]) -> list[Promise]:
    late = max(load.late_p95_ms for load in steady)
    speed = min(load.speed for load in flat_out)
    memory = max(load.resident_mb for load in (*steady, *flat_out))
    many = f"{STREAMS} trainings at {BLOCKS_A_SECOND} blocks a second, one core"
    return [
        Promise(f"{many}: a block leaves late by, 95th percentile", late, MOST_LATE_MS, "ms", True),
        Promise(
            f"{STREAMS} trainings flat out to one collector on one core", speed, MB_A_SECOND, "MB/s", False
        ),
        Promise(f"memory of that collector with {STREAMS} trainings", memory, MOST_MB, "MB", True),
    ]


def table_of(steady: Sequence[Load], flat_out: Sequence[Load]) -> Table:
    columns = [
        Column("MB/s", 1, "more"), Column("of a core, %", 0, "less"), Column("resident, MB", 0, "less"),
        Column("late, 95 %, ms", 1, "less"), Column("latest, ms", 1, "less"),
    ]  # fmt: skip
    rows = [
        Row(f"{name}, round {number}", row_of(load, is_paced=name == "steady"), is_ours=True)
        for name, loads in (("steady", steady), ("flat out", flat_out))
        for number, load in enumerate(loads, start=1)
    ]
    return Table(f"{STREAMS} agents", columns, rows)


def row_of(load: Load, *, is_paced: bool) -> list[float | None]:
    late = [load.late_p95_ms, load.late_most_ms] if is_paced else [None, None]
    return [load.speed, 100 * load.core, load.resident_mb, *late]


# ---- one round


def loaded(session: Session, blocks: int, size: int, a_second: float, *, streams: int = STREAMS) -> Load:
    """With a collector and files of its own, which are gone afterwards."""
    logdir = session.folder / "collected"
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    ours, others = (str(cores[0]), cores[1:]) if len(cores) > 1 else ("", [])
    with collecting(logdir, ours, session.folder) as (process, address, env):
        command = [sys.executable, str(SENDERS), address, ",".join(map(str, others))]
        command += [str(streams), str(blocks), str(size), str(a_second)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as senders:
            try:
                assert senders.stdout is not None
                if senders.stdout.readline() != "sending\n":
                    raise CollectorFailedError("the agents could not begin")
                used, told, most = watched(process, senders)
            except BaseException:
                senders.kill()
                raise
    if told["bytes"] != streams * blocks * size or told["bytes"] != stored(logdir):
        raise CollectorFailedError("not everything arrived")
    shutil.rmtree(logdir)
    return Load(
        told["secs"], told["bytes"] / 1e6, used / told["secs"], most / 1e6, 1e3 * told["late_p95"],
        1e3 * told["late_most"],
    )  # fmt: skip


def watched(process: psutil.Process, senders: subprocess.Popen[str]) -> tuple[float, dict[str, float], int]:
    """Processor time of the collector, what the agents tell, and the most memory."""
    before, most, over = process.cpu_times(), 0, threading.Event()
    reading = threading.Thread(target=senders.wait, daemon=True)
    reading.start()
    while reading.is_alive():
        most = max(most, process.memory_info().rss)
        over.wait(0.1)
    after = process.cpu_times()
    assert senders.stdout is not None
    if senders.returncode:
        raise CollectorFailedError(f"the agents ended with exit code {senders.returncode}")
    used = after.user + after.system - before.user - before.system
    return used, json.loads(senders.stdout.readline()), most


@contextmanager
def collecting(logdir: Path, core: str, folder: Path) -> Iterator[tuple[psutil.Process, str, dict[str, str]]]:
    """The collector's process, its address, and an environment in which agents find it."""
    runtime = folder / "runtime"
    runtime.mkdir(parents=True, exist_ok=True)
    env = {
        **os.environ,
        "XDG_RUNTIME_DIR": str(runtime),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    command = [sys.executable, "-c", PINNED, core, "collect", "--listen", ":0", "--logdir", str(logdir)]
    # In another folder, because this one may be the checkout, which would hide what is installed.
    with subprocess.Popen(
        command, cwd=folder, env=env, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            found = re.search(r"listening at (\S+)\.$", process.stdout.readline())
            if found is None:
                raise CollectorFailedError("the collector did not listen")
            yield psutil.Process(process.pid), found[1], env
        finally:
            process.terminate()
            process.communicate()


def stored(logdir: Path) -> int:
    return sum(path.stat().st_size for path in logdir.rglob("*.netdebug"))
