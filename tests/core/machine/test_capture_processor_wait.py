"""Time in which the training's threads wanted a processor and others had it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tb_netdebug.core.machine import processor_wait
from tb_netdebug.core.machine.processor_wait import Turns
from tb_netdebug.recording.clock import StepClock

IS_COUNTED = (processor_wait.THREADS / str(os.getpid()) / processor_wait.COUNTS).exists()
NEEDS_COUNTS = pytest.mark.skipif(not IS_COUNTED, reason="this system does not count how long a thread waits")
LONG_SECS = 0.3


@pytest.fixture
def one_processor() -> Iterator[int]:
    """This thread may use a single one."""
    before = os.sched_getaffinity(0)
    processor = min(before)
    os.sched_setaffinity(0, {processor})
    yield processor
    os.sched_setaffinity(0, before)


@pytest.fixture
def rival(one_processor: int) -> Iterator[None]:
    """A program that has started to work on it and does not stop."""
    work = f"import os; os.sched_setaffinity(0, {{{one_processor}}}); print(flush=True)\nwhile True: pass"
    child = subprocess.Popen([sys.executable, "-c", work], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    yield
    child.kill()
    child.communicate()


def work(secs: float) -> None:
    until = time.perf_counter() + secs
    while time.perf_counter() < until:
        pass


@NEEDS_COUNTS
@pytest.mark.usefixtures("rival")
def test_a_step_that_shares_its_processor_has_waited() -> None:
    """No longer than it took."""
    clock = StepClock()
    clock.finish()
    work(LONG_SECS)
    times = clock.finish()
    assert 0 < times["probe/waited"] <= times["time/step"]


@NEEDS_COUNTS
@pytest.mark.usefixtures("rival")
def test_a_step_that_another_thread_computes_has_waited_with_it() -> None:
    """As those of TensorFlow do, and torch's in backward: the training's thread only waits for them."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work, 0.0).result()
        clock = StepClock()
        clock.finish()
        pool.submit(work, LONG_SECS).result()
        times = clock.finish()
    assert 0.2 * LONG_SECS < times["probe/waited"] <= times["time/step"]


@NEEDS_COUNTS
def test_a_step_that_waits_for_something_else_has_not_waited_for_a_processor() -> None:
    """A slow disk is the training's own affair."""
    clock = StepClock()
    clock.finish()
    threading.Event().wait(LONG_SECS)
    times = clock.finish()
    assert times["time/step"] - times["probe/waited"] > 0.9 * LONG_SECS


def test_short_steps_are_not_told_apart() -> None:
    wait = processor_wait.ProcessorWait()
    assert [None, None] == [wait.of_step(0.01, ended=at) for at in (0.0, 1.0)]


def test_steps_that_are_all_as_long_are_not_told_apart() -> None:
    """None of them is an outlier, and a reading costs something."""
    wait = processor_wait.ProcessorWait()
    waited = [wait.of_step(0.5, ended=0.5 * at) for at in range(1, 30)]
    assert [None] * 9 == waited[20:]


def test_steps_that_all_wait_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine it is usual that they do, and still it is not theirs."""
    monkeypatch.setattr(processor_wait, "THREADS", tmp_path)
    counts = tmp_path / "1" / processor_wait.COUNTS
    counts.parent.mkdir()
    wait, waited = processor_wait.ProcessorWait(), []
    for at in range(1, 30):
        counts.write_text(f"{at * 10_000_000} {at * 190_000_000} 1\n")
        waited.append(wait.of_step(0.2, ended=0.2 * at))
    assert [pytest.approx(0.19)] * 28 == waited[1:]


@NEEDS_COUNTS
def test_one_that_is_longer_than_the_others_is_told_apart() -> None:
    wait = processor_wait.ProcessorWait()
    for at in range(1, 30):
        wait.of_step(0.5, ended=0.5 * at)
    assert wait.of_step(2.0, ended=17.0) is not None


def held_up(*threads: tuple[float, float], secs: float) -> float:
    """`threads`: seconds on a processor, and in the queue for one."""
    after = {str(number): Turns(10 + worked, 5 + queued) for number, (worked, queued) in enumerate(threads)}
    before = {name: Turns(10.0, 5.0) for name in after}
    return processor_wait.held_up(before, after, secs=secs)


def test_threads_that_work_one_after_the_other() -> None:
    """Each has waited while nobody else worked."""
    assert pytest.approx(0.6) == held_up((0.2, 0.4), (0.2, 0.2), secs=1.0)


def test_threads_that_work_side_by_side() -> None:
    """All have waited at the same time."""
    assert pytest.approx(0.4) == held_up(*[(0.6, 0.4)] * 8, secs=1.0)


def test_threads_that_had_little_to_do() -> None:
    """They may have been late by so much: the rest of the time was spent on something else."""
    assert pytest.approx(0.01) == held_up((0.01, 0.01), (0.0, 0.0), secs=1.0)


def test_a_thread_that_is_new() -> None:
    """All of its time lies within the step."""
    assert pytest.approx(0.5) == processor_wait.held_up({}, {"1": Turns(0.5, 0.5)}, secs=1.0)


def test_a_reading_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process may be short of descriptors for a moment; one that always fails is given up."""
    threads, wait = tmp_path / "task", processor_wait.ProcessorWait()
    monkeypatch.setattr(processor_wait, "THREADS", threads)
    threads.write_text("")  # no folder: an OSError
    assert [None, None] == [wait.of_step(0.2, ended=float(at)) for at in (1, 2)]
    threads.unlink()
    counts = threads / "1" / processor_wait.COUNTS
    counts.parent.mkdir(parents=True)
    waited = []
    for at in range(3, 6):
        counts.write_text(f"{at * 10_000_000} {at * 190_000_000} 1\n")
        waited.append(wait.of_step(0.2, ended=float(at)))
    assert [None, pytest.approx(0.19), pytest.approx(0.19)] == waited
    shutil.rmtree(threads)
    threads.write_text("")
    assert [None] * 9 == [wait.of_step(0.2, ended=float(at)) for at in range(10, 19)]
    assert not wait._is_counted


def test_a_system_that_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steps are timed as ever, and nothing is said of waiting."""
    monkeypatch.setattr(processor_wait, "THREADS", tmp_path / "missing")
    clock = StepClock()
    clock.finish()
    work(LONG_SECS)
    assert {"time/step"} == clock.finish().keys()
