"""Runs programs side by side, each in a process of its own.

Those of torch run in forks of this process, in which torch is loaded already. TensorFlow does not survive a
fork: those of Keras get an interpreter of their own, which takes seconds more.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, Protocol

from zoo.program import KERAS, Program
from zoo.run import Outcome, run

WORKERS = 2
TIMEOUT_SECS = 120.0
FRESH = Path(__file__).with_name("fresh.py")

Job = tuple[Program, int]
Action = Callable[[Program, int, Path], Outcome]


def outcomes(
    jobs: Sequence[Job],
    *,
    action: Action = run,
    folder: Path | None = None,
    workers: int = WORKERS,
    secs: float = TIMEOUT_SECS,
) -> Iterator[Outcome]:
    """In the order in which they end. A program that hangs or dies has an outcome that says so.

    The records are below `folder`, which stays; without it, they are somewhere and vanish.
    """
    waiting = list(reversed(jobs))
    running: dict[Connection, Child] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                child = Child(*waiting.pop(), action, folder, secs)
                running[child.answer] = child
            until = min(child.deadline for child in running.values())
            wait(list(running), timeout=max(until - time.monotonic(), 0.0))
            for child in [each for each in running.values() if each.is_done]:
                del running[child.answer]
                yield child.end()
    finally:
        for child in running.values():
            child.end()


class Child:
    """One program in a process of its own."""

    def __init__(self, program: Program, seed: int, action: Action, folder: Path | None, secs: float) -> None:
        self.deadline = time.monotonic() + secs
        self._blank = Outcome(program.name, seed, secs=secs, error=f"not done after {secs:.0f} s")
        self._temporary = tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True)
        place = folder / f"{program.name}-{seed}" if folder else Path(self._temporary.name)
        self.answer, asked = multiprocessing.Pipe(duplex=False)
        self._process: Process
        if program.framework == KERAS and action is run:
            self._process = fresh(program, seed, place, asked)
        else:
            self._process = Fork(action, program, seed, place, asked)
        asked.close()

    @property
    def is_done(self) -> bool:
        return self.answer.poll() or time.monotonic() >= self.deadline

    def end(self) -> Outcome:
        outcome = self._received()
        self._process.kill()
        self._process.wait()
        self.answer.close()
        self._temporary.cleanup()
        return outcome

    def _received(self) -> Outcome:
        if not self.answer.poll():
            return self._blank
        try:
            received = self.answer.recv()
        except EOFError:
            self._blank.error = f"its process died with exit code {self._process.wait()}"
            return self._blank
        assert isinstance(received, Outcome)
        return received


class Process(Protocol):
    def kill(self) -> None: ...
    def wait(self) -> int | None:
        """The exit code, when it has ended."""


class Fork:
    """Of this process."""

    def __init__(self, *job: Any) -> None:
        self._process = ForkProcess(target=work, args=job)
        self._process.start()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode


def fresh(program: Program, seed: int, folder: Path, answer: Connection) -> Process:
    """An interpreter that knows nothing of this one. What is printed there is of no interest."""
    words = [str(answer.fileno()), program.name, str(seed), str(folder)]
    return subprocess.Popen(
        [sys.executable, str(FRESH), *words],
        pass_fds=[answer.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def work(action: Action, program: Program, seed: int, folder: Path, answer: Connection) -> None:
    """In the child. What a program or its libraries print is of no interest."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
    answer.send(action(program, seed, folder))
    answer.close()
