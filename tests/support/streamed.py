"""Trainings whose records are streamed, each in a process of its own, and where their agents live."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tb_netdebug.core.eventlog.reader.payloads import StoredPayload, read_payloads
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.records.witness import Witness, decode_witness
from tests.support.collector_process import TOKEN, CollectorProcess
from tests.support.spoken_to import SpokenTo, listen

LIMIT_SECS = 60.0


class Home:
    """A folder with a short name, where trainers and agents of one test meet. At its end no agent is left."""

    def __init__(self, token: str = TOKEN) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="nd"))
        self.run = self.folder / "run"
        self.temporary = self.folder / "tmp"
        for each in (self.run, self.temporary):
            each.mkdir(mode=0o700)
        self.env = {
            "XDG_RUNTIME_DIR": str(self.run),
            "TMPDIR": str(self.temporary),
            "NETDEBUG_TOKEN": token,
            "NETDEBUG_REMOTE": "",
        }

    def __enter__(self) -> Home:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            sys.stderr.write(self.logs())
        for pid in self.agents():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not self.agents())
        shutil.rmtree(self.folder)

    def agents(self) -> list[int]:
        """The agents that live, by their locks."""
        return [pid for path in self.run.glob("netdebug/agent-*.lock") if (pid := holder(path))]

    def agent(self) -> int:
        """Waits for the only one there is."""
        found: list[int] = []

        def is_alone() -> bool:
            found[:] = self.agents()
            return len(found) == 1

        wait_for(is_alone)
        return found[0]

    def notes(self) -> list[str]:
        return sorted(path.name for path in self.temporary.glob("netdebug-*/notes-*/*"))

    def waiting(self) -> list[Path]:
        """What is left of runs that were recorded for the collector alone."""
        return sorted(self.temporary.glob("netdebug-*/runs/**/*"))

    def logs(self) -> str:
        return "".join(path.read_text() for path in self.run.glob("netdebug/*.log"))


def holder(lock: Path) -> int:
    """The process that has it; 0 when nobody has."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(lock.read_text() or 0)
    return 0


class StreamedTrainer(SpokenTo):
    """Records steps and has them sent. Without an explicit `close` it ends in the middle."""

    def __init__(
        self, home: Home, remote: str, run_dir: Path, *, run: Sequence[str] = ("run",), rank: int = 0,
        is_spool: bool = False, takes_control: bool = False, identity: str = "",
        env: dict[str, str] | None = None, prefix: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(__file__, env={**home.env, **(env or {})}, prefix=prefix)
        self.run_dir = run_dir
        self.do("open", remote, str(run_dir), list(run), rank, is_spool, takes_control, identity)

    def wait_until_joined(self) -> None:
        """The agent has begun to look at it."""
        wait_for(lambda: list(self.run_dir.glob(f"plugins/netdebug/agent*.{self.process.pid}.*")))

    def put(self, steps: int) -> None:
        """So many more steps, which are on the disk then."""
        self.do("put", steps)

    def bulk(self, megabytes: float) -> None:
        """The same with so many random bytes."""
        self.do("bulk", megabytes)

    def close(self, error: str = "") -> list[str]:
        """As a training ends that comes to its end, when nothing more is expected of the agent; what was said
        at the terminal."""
        found: list[str] = self.do("close", error)
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        self.process.wait()
        return found

    def notices(self) -> list[str]:
        found: list[str] = self.do("notices")
        return found


class _Program:
    """The other side."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.heard: list[str] = []
        self.next_step = 0
        self.flowing = threading.Event()

    def open(
        self, remote: str, run_dir: str, run: list[str], rank: int, is_spool: bool, takes_control: bool,
        identity: str,
    ) -> None:  # fmt: skip
        from tb_netdebug.core.eventlog.writer import EventWriter
        from tb_netdebug.transport.link import Link

        self.writer = EventWriter(run_dir, rank=rank)
        self.link = Link.start(
            remote=remote,
            run_dir=Path(run_dir),
            run=run,
            rank=rank,
            is_spool=is_spool,
            takes_control=takes_control,
            identity=identity,
            notice=self.told.append,
        )
        self.link.on_control = lambda data: self.heard.append(data.decode())

    def put(self, steps: int) -> None:
        from tests.support.trainer import record

        for _ in range(steps):
            self.writer.put(record(self.next_step, samples=self.next_step % 3))
            self.next_step += 1
        self.writer.flush()

    def bulk(self, megabytes: float) -> None:
        """Records that cannot be made smaller."""
        for _ in range(round(10 * megabytes)):
            self.writer.payload("noise", os.urandom(100_000))
        self.writer.flush()

    def flow(self) -> None:
        """Steps without end, some thousands a second, until the process is killed or told to `close`."""
        threading.Thread(target=self._flow, daemon=True).start()

    def _flow(self) -> None:
        from tests.support.trainer import record

        while not self.flowing.wait(0.002):
            for _ in range(5):
                self.writer.put(record(self.next_step, samples=2))
                self.next_step += 1
            self.writer.payload("noise", os.urandom(2000))

    def close(self, error: str) -> list[str]:
        self.flowing.set()
        self.writer.close()
        self.link.goodbye(error=error)
        self.link.wait(30.0)
        return self.told

    def notices(self) -> list[str]:
        return self.told

    def send(self, text: str) -> bool:
        return self.link.send(text.encode())

    def controls(self) -> list[str]:
        return self.heard

    def imports(self, name: str) -> bool:
        return name in sys.modules

    def fork(self) -> list[str]:
        """What a forked child has open that leads elsewhere; the child lives on until it is killed."""
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            kinds = [each for each in open_descriptors() if each.startswith("socket:")]
            os.write(writes, " ".join([str(os.getpid()), *kinds]).encode())
            os.closerange(0, 3)  # whoever reads what the parent prints sees its end
            time.sleep(600)
            os._exit(0)
        return os.read(reads, 1000).decode().split()

    def sleep(self, secs: float) -> None:
        time.sleep(secs)

    def leave(self, code: int) -> None:
        self.writer.close()
        os._exit(code)


def open_descriptors() -> list[str]:
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(each.readlink()))
    return found


def seen(run_dir: Path) -> list[Witness]:
    """What agents have written about a run, in the order of their files."""
    return [
        decode_witness(each.data)
        for path in sorted((run_dir / "plugins/netdebug").glob("agent*.netdebug"))
        for each in read_payloads(path)
        if isinstance(each, StoredPayload) and each.name == "witness"
    ]


def steps(run_dir: Path) -> list[int]:
    """Of a run in which nothing is damaged."""
    run = read_run(run_dir)
    assert [] == run.losses
    found: list[int] = run.main.steps.tolist()
    return found


def again(collector: CollectorProcess) -> CollectorProcess:
    """Another one at the same port, with the same folder."""
    return CollectorProcess(collector.root, at=collector.address)


def contents(folder: Path) -> dict[str, bytes]:
    """All event files of ours below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*.netdebug"))}


def wait_for(condition: Callable[[], Any], secs: float = LIMIT_SECS) -> None:
    """Fails when it does not come true."""
    until = time.monotonic() + secs
    while not condition():
        assert time.monotonic() < until, "it has not come true in time"
        time.sleep(0.02)


if __name__ == "__main__":
    listen(_Program())
