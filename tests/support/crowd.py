"""Many trainings at once, each with an agent of its own, against one collector.

Trainer and agent are processes, as with a user. The trainers are forked from one that has imported all they
need, so that some hundred fit into memory; each has a home of its own, so none shares its agent with another.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tb_netdebug.transport.limits import USUAL
from tests.support.collector_process import CollectorProcess
from tests.support.spoken_to import ROOT, SpokenTo, listen
from tests.support.streamed import Home, wait_for

STARTS_AT_ONCE = 4
STEPS = 20
# An agent on a busy machine takes seconds to start, and there may be hundreds.
GATHERING_SECS = 1800.0
# A trainer stays until all of its records have arrived.
SENDING_SECS = 3600.0


class Trainers(SpokenTo):
    """Forks them; they wait behind one barrier."""

    def __init__(self) -> None:
        super().__init__(__file__)

    def start(self, home: Home, remote: str, run_dir: Path, kilobytes: int) -> None:
        """Return at once; it records some steps, and is connected soon."""
        self.do("start", home.env, remote, str(run_dir), kilobytes)

    def open_barrier(self) -> None:
        self.do("open_barrier")

    def alive(self) -> int:
        return int(self.do("alive"))


class _Program:
    """The other side."""

    def __init__(self) -> None:
        import tests.support.trainer
        from tb_netdebug.core.eventlog.writer import EventWriter
        from tb_netdebug.transport.link import Link

        self.link, self.writer, self.record = Link, EventWriter, tests.support.trainer.record
        self.waits, self.barrier = os.pipe()
        self.children: set[int] = set()

    def start(self, env: dict[str, str], remote: str, run_dir: str, kilobytes: int) -> None:
        child = os.fork()
        if child:
            self.children.add(child)
            return
        code = 1
        try:
            os.close(self.barrier)
            os.dup2(os.open(os.devnull, os.O_RDWR), 0)
            os.dup2(0, 1)  # the parent's answers are the parent's
            os.environ.update(env)
            self.train(remote, Path(run_dir), kilobytes)
            code = 0
        finally:
            os._exit(code)

    def train(self, remote: str, run_dir: Path, kilobytes: int) -> None:
        """Records some steps, and the bulk once the barrier is open; stays until all of it was delivered."""
        writer = self.writer(str(run_dir))
        link = self.link.start(
            remote=remote, run_dir=run_dir, run=(run_dir.name,), rank=0, is_spool=False,
            takes_control=False, notice=lambda text: None,
        )  # fmt: skip
        for step in range(STEPS):
            writer.put(self.record(step))
        writer.flush()
        os.read(self.waits, 1)
        for _ in range(-(-kilobytes // 64)):
            writer.payload("noise", os.urandom(64 << 10))
            writer.flush()
        writer.close()
        link.goodbye()
        link.wait(SENDING_SECS)

    def open_barrier(self) -> None:
        os.close(self.barrier)

    def alive(self) -> int:
        for child in list(self.children):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                self.children.remove(child)
                assert status == 0, f"a trainer ended with {os.waitstatus_to_exitcode(status)}"
        return len(self.children)

    def end(self) -> None:
        for child in self.children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


@dataclass
class Told:
    agents: int
    at_once: int
    bytes: int
    bytes_before: int
    kills: int
    collectors: int
    peak_bytes: int
    processor_secs: float
    gathering_secs: float
    sending_secs: float

    def __str__(self) -> str:
        return (
            f"{self.agents} agents, {self.at_once} of them connected at one instant, with "
            f"{self.bytes_before / 1e6:.1f} MB sent until then; {self.kills} killed; {self.collectors} "
            f"collectors one after the other; {self.bytes / 1e6:.1f} MB arrived whole, 0 bytes lost. They "
            f"gathered in {self.gathering_secs:.0f} s, and the rest was sent in {self.sending_secs:.1f} s. A "
            f"collector had at most {self.peak_bytes / 2**20:.0f} MiB, and all of them took "
            f"{self.processor_secs:.1f} s of processor time"
        )


class Crowd:
    """`run` it; the files are compared at its end."""

    def __init__(self, folder: Path, agents: int, *, seed: int, kilobytes: int = 512) -> None:
        self._here, self._there = folder / "here", folder / "there"
        self._random = random.Random(seed)
        self._kilobytes = kilobytes
        self._stack = ExitStack()
        self._collector = self._collect()
        self._trainers = Trainers()
        self._homes = [self._stack.enter_context(Home()) for _ in range(agents)]
        self._collectors, self._kills = 1, 0
        self._peak, self._secs = 0, 0.0

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._trainers.do("end")
        self._trainers.kill()
        self._collector.kill()
        self._stack.close()

    def run(self, *, kills: int) -> Told:
        """The bulk is recorded when all are connected and have sent something. In the midst of it the
        collector is killed, and some of the agents."""
        began = time.monotonic()
        for number, home in enumerate(self._homes):
            run_dir = self._here / f"run{number}"
            self._trainers.start(home, self._collector.address, run_dir, self._kilobytes)
            self._wait_until_connected(number + 1 - STARTS_AT_ONCE)
        wait_for(lambda: self._begun() == len(self._homes), secs=GATHERING_SECS)
        at_once, before, gathered = self._connected(), self._arrived(), time.monotonic()
        self._trainers.open_barrier()
        wait_for(lambda: self._arrived() - before > len(self._homes) * (self._kilobytes << 10) // 4)
        self._kill_collector_and(kills)
        wait_for(lambda: self._trainers.alive() == 0, secs=SENDING_SECS)
        wait_for(self._is_delivered, secs=SENDING_SECS)
        sent = time.monotonic()
        self._note_cost()
        return Told(
            len(self._homes), at_once, self._compared(), before, self._kills, self._collectors, self._peak,
            self._secs, gathered - began, sent - gathered,
        )  # fmt: skip

    # ---- parts

    def _collect(self, at: str = "127.0.0.1:0") -> CollectorProcess:
        return CollectorProcess(self._there, at=at, sync_secs=USUAL.sync_secs)

    def _wait_until_connected(self, agents: int) -> None:
        wait_for(lambda: self._connected() >= agents, secs=GATHERING_SECS)

    def _connected(self) -> int:
        """How many agents have a stream at the collector, with a trainer each."""
        return len({trainer["key"].partition("/")[0] for trainer in self._collector.trainers()})

    def _begun(self) -> int:
        return sum(path.stat().st_size > 0 for path in self._there.glob("*/events.*"))

    def _arrived(self) -> int:
        return sum(path.stat().st_size for path in self._there.glob("*/events.*"))

    def _kill_collector_and(self, agents: int) -> None:
        self._note_cost()
        self._collector.kill()
        alive = [pid for home in self._homes for pid in home.agents()]
        for pid in self._random.sample(alive, min(agents, len(alive))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self._kills += 1
        self._collector = self._collect(self._collector.address)
        self._collectors += 1

    def _is_delivered(self) -> bool:
        """Whether nothing is left to send. Trainers do not wait for a collector that is away, and when they
        have gone, what a killed agent leaves waits for the next one."""
        left = [home for home in self._homes if home.notes()]
        for home in left:
            if not home.agents():
                start_agent(home, self._collector.address)
        return not left

    def _note_cost(self) -> None:
        peak, secs = cost(self._collector.process.pid)
        self._peak, self._secs = max(self._peak, peak), self._secs + secs

    def _compared(self) -> int:
        total = 0
        for number in range(len(self._homes)):
            (original,) = (self._here / f"run{number}").glob("events.*")
            data = original.read_bytes()
            assert data == (self._there / original.relative_to(self._here)).read_bytes(), original
            total += len(data)
        return total


def start_agent(home: Home, remote: str) -> None:
    """Return when it is there, as for the next training of that user."""
    path = os.pathsep.join([*(entry for entry in sys.path if entry), str(ROOT)])
    env = {**os.environ, "PYTHONPATH": path, "GRPC_VERBOSITY": "NONE", **home.env}
    command = [sys.executable, "-m", "tb_netdebug.transport.agent", remote]
    subprocess.run(command, env=env, check=True, stdin=subprocess.DEVNULL)


def cost(pid: int) -> tuple[int, float]:
    """Return the most memory that a process ever had, in bytes, and its processor time in seconds."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    times = psutil.Process(pid).cpu_times()
    return int(peak[1]) << 10 if peak else 0, times.user + times.system


if __name__ == "__main__":
    listen(_Program())
