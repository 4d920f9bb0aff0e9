"""Trainings of one network in one process, which take turns: what the monitoring of each costs more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import torch

import tb_netdebug as nd
from bench.models import Training
from bench.progress import Session
from bench.rounds import paired, turn

STRETCH_SECS, QUICK_STRETCH_SECS = 0.25, 0.05
WARM_UP_STEPS = 30
FEWEST_STEPS = 3


@dataclass(slots=True)
class Runner:
    """A training at work; of each round the median step, in seconds of the thread and by the clock."""

    title: str
    training: Training
    monitor: nd.Monitor
    busy: list[float] = field(default_factory=list)
    passed: list[float] = field(default_factory=list)

    def run(self, steps: int) -> None:
        busy, passed = [], []
        for _ in range(steps):
            began, before = time.perf_counter(), time.thread_time()
            self.monitor.step(loss=self.training.step())
            busy.append(time.thread_time() - before)
            passed.append(time.perf_counter() - began)
        self.busy.append(median(busy))
        self.passed.append(median(passed))


@contextmanager
def one_thread() -> Iterator[None]:
    """With several, the thread that waits for the others looks as busy as they are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def warm_up(running: Sequence[Runner], session: Session, title: str) -> int:
    """So many steps are a stretch."""
    session.progress.show(f"{title}: warming up")
    for runner in running:
        runner.run(WARM_UP_STEPS)
    secs = QUICK_STRETCH_SECS if session.is_quick else STRETCH_SECS
    steps = max(FEWEST_STEPS, round(secs / running[0].passed[-1]))
    for runner in running:
        runner.busy.clear()
        runner.passed.clear()
    return steps


def run_rounds(running: Sequence[Runner], session: Session, rounds: int, *, title: str) -> None:
    tell: Callable[[str], None] = session.progress.show
    steps = warm_up(running, session, title)
    for number in range(rounds):
        tell(f"{title}: round {number + 1} of {rounds}, {steps} steps each")
        for runner in turn(running, number):
            runner.run(steps)


def more_busy(ours: Runner, theirs: Runner) -> float:
    """In percent, of the processor time of the training thread."""
    return percent(paired(ours.busy, theirs.busy))


def slower(ours: Runner, theirs: Runner) -> float:
    """In percent, by the clock."""
    return percent(paired(ours.passed, theirs.passed))


def noise_of(one: Runner, other: Runner) -> float:
    """In percent, of two trainings that are equal: half of what lies between the quarters of the rounds, or
    the difference of the two, if that is larger."""
    ratios = np.array(one.passed) / np.array(other.passed)
    low, high = np.percentile(ratios, [25, 75])
    return max(100 * float(high - low) / 2, abs(percent(float(np.median(ratios)))))


def percent(ratio: float) -> float:
    return (ratio - 1) * 100
