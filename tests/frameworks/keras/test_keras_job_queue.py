"""The thread that reads tensors beside a training of Keras, whatever becomes of it."""

from __future__ import annotations

import pytest

from tb_netdebug.frameworks.keras.job_queue import MOST_JOBS, Finished, JobQueue
from tb_netdebug.recording.guard import Guard

# It is reported like that of any thread.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


def fatal() -> Finished:
    raise SystemExit(3)


@pytest.fixture
def queue() -> JobQueue:
    return JobQueue(Guard(strict=True))


def test_a_job_that_ends_the_thread(queue: JobQueue) -> None:
    """It has a result without numbers; those behind it are done all the same, and nobody waits for it."""
    for step in range(3 * MOST_JOBS):
        queue.put(step, fatal if step % 3 == 0 else lambda step=step: Finished(step))
    queue.wait()
    assert queue.oldest is None
    queue.close()
    assert [*range(3 * MOST_JOBS)] == [each.step for each in queue.finished()]


def test_jobs_behind_one_that_ends_the_thread_are_finished_by_close(queue: JobQueue) -> None:
    queue.put(0, fatal)
    queue.put(1, lambda: Finished(1))
    queue.close()
    assert [0, 1] == [each.step for each in queue.finished()]
