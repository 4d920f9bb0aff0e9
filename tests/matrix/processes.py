"""Runs many short programs as forks of this process, some at a time, and ends those that hang."""

from __future__ import annotations

import atexit
import os
import selectors
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

# So long a main thread sleeps without any work until it counts as hanging. Who would work, and is left no
# processor by others, does not sleep.
ASLEEP_SECS = 20.0
DEADLINE_SECS = 180.0
POLL_SECS = 0.25
# Who has slept so long leaves its place to another.
RESTING_SECS = 1.0
HUNG = "hung"


@dataclass(slots=True)
class Job:
    """A program to run in a folder of its own; `skip` says in the last moment that it need not."""

    folder: Path
    action: Callable[[], int]
    done: Callable[[int | str], None]
    skip: Callable[[], bool] = lambda: False
    deadline_secs: float = DEADLINE_SECS


@dataclass(slots=True)
class Running:
    job: Job
    pid: int
    began: float
    worked: int = -1
    rested_since: float = field(default_factory=time.monotonic)
    is_hung: bool = False

    def look(self) -> None:
        """Whether the main thread has done anything since the last look."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/stat").read_text()
        except OSError:
            return
        state, *numbers = text.rpartition(") ")[2].split()
        worked = int(numbers[10]) + int(numbers[11])
        if worked != self.worked or state not in "S":
            self.worked, self.rested_since = worked, time.monotonic()

    @property
    def rest(self) -> float:
        return time.monotonic() - self.rested_since

    def hangs(self, asleep_secs: float) -> bool:
        return self.rest > asleep_secs or time.monotonic() - self.began > self.job.deadline_secs


class Pool:
    """`run` returns when all jobs are done. It returns in the parent only: a child ends as a program does."""

    def __init__(
        self, jobs: int, *, asleep_secs: float = ASLEEP_SECS, resting_secs: float = RESTING_SECS
    ) -> None:
        self._jobs = jobs
        self._asleep_secs = asleep_secs
        self._resting_secs = resting_secs
        self._running: dict[int, Running] = {}
        self._selector = selectors.DefaultSelector()

    def run(self, jobs: Iterable[Job]) -> None:
        try:
            self._run(deque(jobs))
        finally:
            for pid in self._running:  # none, unless this was interrupted
                end_group(pid)
                os.waitpid(pid, 0)

    def _run(self, waiting: deque[Job]) -> None:
        while waiting or self._running:
            while waiting and self._has_room():
                job = waiting.popleft()
                if not job.skip():
                    self._start(job)
            for key, _ in self._selector.select(POLL_SECS):
                self._ended(key.fd, key.data)
            for running in list(self._running.values()):
                running.look()
                if running.hangs(self._asleep_secs) and not running.is_hung:
                    running.is_hung = True
                    end_group(running.pid)

    def _has_room(self) -> bool:
        busy = sum(each.rest < self._resting_secs for each in self._running.values())
        return busy < self._jobs and len(self._running) < 4 * self._jobs

    def _start(self, job: Job) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            end(lambda: in_child(job))
        running = Running(job, pid, time.monotonic())
        self._running[pid] = running
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, running)

    def _ended(self, descriptor: int, running: Running) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(running.pid, 0)
        del self._running[running.pid]
        end_group(running.pid)
        code = os.waitstatus_to_exitcode(status)
        running.job.done(HUNG if running.is_hung else code)


def end(action: Callable[[], int]) -> NoReturn:
    """Ends this process as Python ends a program: error shown, threads waited for, what is registered called.

    Only the taking apart of all modules is left out, which would copy every page of the parent.
    """
    code: Any = 1
    try:
        code = action()
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def in_child(job: Job) -> int:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    work = job.folder / "work"
    work.mkdir(parents=True)
    os.chdir(work)
    for number, name in ((0, os.devnull), (1, "stdout.txt"), (2, "stderr.txt")):
        opened = os.open(job.folder / name, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    return job.action()


def end_group(pid: int) -> None:
    """Whatever the program has left running."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
