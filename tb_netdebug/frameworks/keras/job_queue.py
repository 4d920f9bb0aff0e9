"""Read the tensors of finished steps on a background thread, so that reading does not delay training.

TensorFlow's tensors do not change once a step has returned them, so they can be read while the next step
runs. Their numbers arrive a step or two late and are added to the record of their own step.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tb_netdebug.core.records.step import Fact, Sample
from tb_netdebug.recording.guard import Guard

# Queued steps keep their tensors in memory; beyond these limits the training thread waits.
MOST_JOBS = 4
MOST_BYTES = 256 << 20
# Who waits looks this often whether the thread still lives.
ALIVE_SECS = 1.0


@dataclass(slots=True)
class Finished:
    """The numbers, samples and facts read from one step."""

    step: int
    scalars: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    step: int
    work: Callable[[], Finished | None]
    size: int


class JobQueue:
    """Runs jobs in order on one thread. All its methods are called on the training thread."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._jobs: deque[Job] = deque()
        self._finished: deque[Finished] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._bytes = 0
        self._is_closing = False
        self._pid = os.getpid()
        self.cost_secs = 0.0

    def put(self, step: int, work: Callable[[], Finished | None], *, size: int = 0) -> None:
        """Queue a job; wait only while more than MOST_JOBS jobs or MOST_BYTES bytes are queued."""
        self._start()
        with self._changed:
            self._jobs.append(Job(step, work, size))
            self._bytes += size
            self._changed.notify_all()
            while len(self._jobs) > MOST_JOBS or self._bytes > MOST_BYTES:
                self._changed.wait(ALIVE_SECS)
                self._start()

    def finished(self) -> list[Finished]:
        return [self._finished.popleft() for _ in range(len(self._finished))]

    @property
    def oldest(self) -> int | None:
        """The first step that is not finished; None if there is none."""
        try:
            return self._jobs[0].step
        except IndexError:
            return None

    def wait(self) -> None:
        """Wait until all jobs are finished; a forked child waits for none of its parent's."""
        with self._changed:
            while self._jobs and self._pid == os.getpid():
                self._start()
                self._changed.wait(ALIVE_SECS)

    def close(self) -> None:
        """Finish all queued jobs and stop the thread. Harmless when called again."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        while self._thread is not None:
            self._thread.join()
            self._thread = None
            if self._jobs and self._pid == os.getpid():  # a job has ended the thread
                self._start()

    def _start(self) -> None:
        """Start the thread if there is none, as after a job that ended it."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="netdebug-desk", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self._is_closing:
                    self._changed.wait()
                if not self._jobs:
                    return
                job = self._jobs[0]  # it stays in the queue until it is done: see `oldest`
            try:
                self._do(job)
            finally:  # also when it ends the thread: the next one must not do it again
                with self._changed:
                    self._jobs.popleft()
                    self._bytes -= job.size
                    self._changed.notify_all()
            del job  # releases the tensors

    def _do(self, job: Job) -> None:
        began = time.thread_time()
        found: Finished | None = Finished(job.step)
        try:
            found = job.work()
        except Exception as error:
            self._guard.fault("reading the tensors of a step", error)
        finally:
            if found is not None:
                self._finished.append(found)
            self.cost_secs += time.thread_time() - began
