"""Read the tensors of finished steps on a background thread, so that reading does not delay training.

TensorFlow's tensors do not change once a step has returned them, so they can be read while the next step
runs. Their numbers arrive a step or two late and are added to the record of their own step.
"""

from __future__ import annotations

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
        self.cost_secs = 0.0

    def put(self, step: int, work: Callable[[], Finished | None], *, size: int = 0) -> None:
        """Queue a job; wait only while more than MOST_JOBS jobs or MOST_BYTES bytes are queued."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="netdebug-desk", daemon=True)
            self._thread.start()
        with self._changed:
            self._jobs.append(Job(step, work, size))
            self._bytes += size
            self._changed.notify_all()
            while len(self._jobs) > MOST_JOBS or self._bytes > MOST_BYTES:
                self._changed.wait()

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
        """Wait until all jobs are finished."""
        with self._changed:
            while self._jobs and self._thread is not None and self._thread.is_alive():
                self._changed.wait(1.0)

    def close(self) -> None:
        """Finish all queued jobs and stop the thread. Harmless when called again."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._jobs and not self._is_closing:
                    self._changed.wait()
                if not self._jobs:
                    return
                job = self._jobs[0]  # it stays in the queue until it is done: see `oldest`
            self._do(job)
            with self._changed:
                self._jobs.popleft()
                self._bytes -= job.size
                self._changed.notify_all()
            del job  # releases the tensors

    def _do(self, job: Job) -> None:
        began = time.thread_time()
        try:
            found = job.work()
        except Exception as error:
            self._guard.fault("reading the tensors of a step", error)
            found = Finished(job.step)
        if found is not None:
            self._finished.append(found)
        self.cost_secs += time.thread_time() - began
