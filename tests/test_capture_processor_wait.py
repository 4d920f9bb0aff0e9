"""Time in which the training's thread wanted a processor and others had it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_netdebug.capture import processor_wait
from tb_netdebug.capture.clock import StepClock

IS_COUNTED = processor_wait.COUNTS.exists()
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


@pytest.mark.skipif(not IS_COUNTED, reason="this system does not count how long a thread waits")
@pytest.mark.usefixtures("rival")
def test_a_step_that_shares_its_processor_has_waited() -> None:
    """No longer than it took."""
    clock = StepClock()
    clock.finish()
    work(LONG_SECS)
    times = clock.finish()
    assert 0 < times["probe/waited"] <= times["time/step"]


@pytest.mark.skipif(not IS_COUNTED, reason="this system does not count how long a thread waits")
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


def test_a_system_that_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steps are timed as ever, and nothing is said of waiting."""
    monkeypatch.setattr(processor_wait, "COUNTS", tmp_path / "missing")
    clock = StepClock()
    clock.finish()
    work(LONG_SECS)
    assert {"time/step"} == clock.finish().keys()
