"""A training in a process of its own that does what it is told, one line at a time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Timer
from types import TracebackType
from typing import Any, TextIO

from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.packed import Summary


def summary(count: int = 100, *, low_bin: int = 0x3F8) -> bytes:
    """A packed summary of `count` ones; the number decides how many bytes it has."""
    import numpy as np

    bins = np.arange(low_bin, low_bin + 1, dtype=np.uint16)
    numbers = (count, 0, 0, 0, 0, 0, 1.0, 1.0, float(count), float(count))
    return Summary(*numbers, bins=bins, counts=np.array([count], np.uint64)).pack()


def record(step: int, *, samples: int = 0) -> StepRecord:
    """A step whose loss is its own number."""
    taken = [Sample(Series(Kind.WEIGHT, f"layer{number}"), summary()) for number in range(samples)]
    return StepRecord(step, 1e9 + step, {"loss": float(step)}, taken)


class Trainer:
    """Starts the process; each method waits until the process has done it."""

    def __init__(self, run_dir: Path, *, env: dict[str, str] | None = None, **options: Any) -> None:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(run_dir), json.dumps(options)],
            env={**os.environ, "PYTHONPATH": path, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Trainer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.communicate()

    def put(self, steps: int, *, samples: int = 0) -> None:
        """So many more steps, numbered on."""
        self.do("put", steps, samples)

    def flush(self) -> bool:
        return bool(self.do("flush"))

    def counters(self) -> dict[str, int]:
        found: dict[str, int] = self.do("counters")
        return found

    def warnings(self) -> list[str]:
        found: list[str] = self.do("warnings")
        return found

    def close(self) -> None:
        self.do("close")

    def do(self, name: str, *arguments: object) -> Any:
        """Run one of the commands below and return its result."""
        self.send(name, *arguments)
        return self.hear()

    def send(self, name: str, *arguments: object) -> None:
        """The same without waiting for it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """What the process says next."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def leave(self, how: str) -> int:
        """End the program in the given way (see `_Program.leave`); the exit code."""
        self.send("leave", how)
        self.process.communicate()
        return self.process.returncode

    def kill(self, signum: int = signal.SIGKILL) -> int:
        """End it from outside; the exit code."""
        self.process.send_signal(signum)
        self.process.communicate()
        return self.process.returncode


class _Program:
    """The other side."""

    def __init__(self, run_dir: str, options: dict[str, Any]) -> None:
        self.shown: list[str] = []
        warnings.simplefilter("always")
        warnings.showwarning = self._show
        self.writer = EventWriter(run_dir, **options)
        self.next_step = 0

    def _show(
        self, message: Warning | str, category: type[Warning], filename: str, lineno: int,
        file: TextIO | None = None, line: str | None = None,
    ) -> None:  # fmt: skip
        self.shown.append(f"{Path(filename).name} {category.__name__} {message}")

    def put(self, steps: int, samples: int) -> None:
        for _ in range(steps):
            self.writer.put(record(self.next_step, samples=samples))
            self.next_step += 1

    def put_bad(self) -> None:
        """A step with a sample that is no summary."""
        broken = record(self.next_step)
        broken.samples.append(Sample(Series(Kind.WEIGHT, "broken"), b"no summary"))
        self.writer.put(broken)
        self.next_step += 1

    def put_at(self, wall_time: str) -> None:
        """A step at a time such as "nan"."""
        strange = record(self.next_step)
        strange.wall_time = float(wall_time)
        self.writer.put(strange)
        self.next_step += 1

    def try_put(self) -> str:
        """The error that one more `put` raises."""
        try:
            self.put(1, 0)
        except RuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def graph(self, text: str) -> None:
        self.writer.graph(text.encode())

    def flush(self) -> bool:
        return self.writer.flush()

    def wait_until_written(self) -> None:
        while self.writer.counters.written_steps < self.next_step:
            Event().wait(0.005)

    def wait_for_some_written(self) -> None:
        while not self.writer.counters.written_steps:
            Event().wait(0.005)

    def close(self) -> None:
        self.writer.close()

    def counters(self) -> dict[str, int]:
        return {name: getattr(self.writer.counters, name) for name in self.writer.counters.__slots__}

    def warnings(self) -> list[str]:
        return self.shown

    def fork(self, children: int) -> list[int]:
        """Children that use the writer in every way; their exit codes."""
        return [self._fork() for _ in range(children)]

    def _fork(self) -> int:
        self.put(3, 2)
        pid = os.fork()
        if pid == 0:
            signal.alarm(20)  # a child that hangs dies of it
            self.put(1000, 1)
            self.writer.graph(b"child")
            flushed = self.writer.flush()
            self.writer.close()
            os._exit(3 if flushed else 0)
        self.put(3, 2)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def fork_and_leave(self) -> int:
        """A child that ends as programs do, with all that happens at exit."""
        pid = os.fork()
        if pid == 0:
            self.put(10, 0)
            sys.exit(7)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def fork_and_terminate(self) -> int:
        """A child that gets SIGTERM, as the workers of a data loader do."""
        ready, tell_ready = os.pipe()  # Python forgets signals that come in the middle of a fork
        pid = os.fork()
        if pid == 0:
            os.write(tell_ready, b".")
            signal.alarm(20)
            signal.pause()
        os.read(ready, 1)
        os.kill(pid, signal.SIGTERM)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def handle_sigterm(self, how: str) -> None:
        """The user's own handler: "ignore", or "go on" with the training."""
        chosen = signal.SIG_IGN if how == "ignore" else lambda *_: tell("handled")
        signal.signal(signal.SIGTERM, chosen)

    def terminate_while_putting(self) -> None:
        """SIGTERM to ourselves, from a thread, in the middle of a storm of steps."""
        self.put(100, 2)
        Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        while True:
            self.put(1, 2)

    def leave(self, how: str) -> None:
        if how == "exception":
            raise ValueError("the training failed")
        sys.exit(0)


def _main(arguments: Sequence[str]) -> None:
    program = _Program(arguments[0], json.loads(arguments[1]))
    for line in sys.stdin:
        name, *rest = json.loads(line)
        tell(getattr(program, name)(*rest))


def tell(result: object) -> None:
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main(sys.argv[1:])
