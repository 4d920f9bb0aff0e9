"""Processes that talk about the steps they sampled, each in a thread here: whatever they do, none hangs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch.distributed as distributed

from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.frameworks.torch.ranks import exchange, meeting
from tb_netdebug.frameworks.torch.ranks.exchange import Exchange, PendingSamples
from tb_netdebug.frameworks.torch.ranks.rank_messages import RankMessage, merged
from tb_netdebug.recording.agreement import Agreement
from tests.support.record_cases import packed_of

WEIGHT, GRADIENT = Series(Kind.WEIGHT, "0.weight"), Series(Kind.GRADIENT, "0.weight")
names = count()


def part(rank: int, step: int) -> bytes:
    values = np.random.default_rng([rank, step]).normal(size=10 + rank).astype(np.float32)
    return packed_of(values)


@dataclass
class Process:
    """One that trains: its steps are `held` as samples, or skipped."""

    exchange: Exchange
    agreement: Agreement
    rank: int
    heard: dict[int, list[StepRecord]] = field(default_factory=dict)
    found: dict[int, list[Sample]] = field(default_factory=dict)
    scalars: dict[int, dict[str, float]] = field(default_factory=dict)

    def step(self, number: int, *, sampled: bool = True) -> None:
        if sampled:
            mine = part(self.rank, number)
            held = PendingSamples({WEIGHT: mine}, [Sample(WEIGHT, mine)] if self.rank == 0 else [])
            self.exchange.offer(number, held)
        self.exchange.passed(number)
        self.agreement.note(StepRecord(number, 0.0, {"time/step": 0.25, "loss": 1.0}))

    def wanted(self, step: int | None = None) -> tuple[int, bool]:
        """Each step is sampled, or this one is the next."""
        return (self.exchange._passed + 1, True) if step is None else (step, False)

    def finish(self) -> None:
        self.exchange.finish()
        for step, scalars, samples in self.exchange.take():
            self.found[step], self.scalars[step] = samples, scalars


Start = Callable[..., list[Process]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """So many processes of a training of `size` that have begun to talk."""
    begun: list[Process] = []

    def go(
        here: int, *, size: int | None = None, fan: int = 16, wanted: tuple[int, ...] = ()
    ) -> list[Process]:
        store, name = distributed.HashStore(), str(next(names))
        for rank in range(here):
            agreement = Agreement()
            made = Exchange(store, name, rank, size or here, agreement, fan=fan)
            process = Process(made, agreement, rank)
            agreement.wanted = partial(process.wanted, *wanted[rank : rank + 1])
            if rank == 0:
                agreement.heard = lambda rank, records: begun[0].heard.setdefault(rank, []).extend(records)
            begun.append(process)
            made.start()
        return begun

    monkeypatch.setattr(exchange, "CLOSING_SECS", 2.0)
    yield go
    finish(begun)


def finish(processes: list[Process]) -> None:
    """All at once, as trainings end."""
    threads = [threading.Thread(target=each.finish) for each in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("processes", "fan"), [(2, 16), (5, 2), (7, 3)])
def test_parts_become_a_whole(start: Start, processes: int, fan: int) -> None:
    """Whatever the tiers: each value counts once, and the first process alone gets the result."""
    ranks = start(processes, fan=fan)
    for number in range(3):
        for each in ranks:
            each.step(number)
    finish(ranks)
    for number in range(3):
        (sample,) = ranks[0].found[number]
        expected = kernel.merge([part(rank, number) for rank in range(processes)])
        whole, wanted = Summary.unpack(sample.summary), Summary.unpack(expected)
        assert (wanted.count, wanted.min, wanted.max) == (whole.count, whole.min, whole.max)
        assert wanted.bins.tolist() == whole.bins.tolist()
        assert wanted.counts.tolist() == whole.counts.tolist()
        assert wanted.sum == pytest.approx(whole.sum, rel=1e-12)
        assert float(processes) == ranks[0].scalars[number]["ranks/merged"]
    assert [{}] * (processes - 1) == [each.found for each in ranks[1:]]


def test_the_first_process_hears_of_the_others(start: Start) -> None:
    """For the checks: times, no loss, and weights without their sketches."""
    ranks = start(3)
    for number in range(4):
        for each in ranks:
            each.step(number)
    finish(ranks)
    assert {1, 2} == ranks[0].heard.keys()
    assert {"time/step": 0.25} == ranks[0].heard[2][0].scalars


def test_all_sample_the_latest_step_proposed(start: Start) -> None:
    """Nobody looks more often than it can afford; before, each may look when it likes."""
    ranks = start(2, wanted=(40, 70))
    until(lambda: all(each.agreement.is_made for each in ranks))
    assert [70, 70] == [each.agreement.step for each in ranks]
    for each in ranks:
        for number in range(71):
            each.step(number, sampled=number == 70)
    until(lambda: bool(ranks[0].exchange.take()))


def test_a_process_that_skips_a_step(start: Start) -> None:
    """That step is not merged: each keeps its own part. The next one is again."""
    ranks = start(2)
    for number in range(3):
        ranks[0].step(number)
        ranks[1].step(number, sampled=number != 1)
    finish(ranks)
    assert [0, 1, 2] == sorted(ranks[0].found)
    assert [part(0, 1)] == [each.summary for each in ranks[0].found[1]]
    assert {0: 21, 2: 21} == {step: Summary.unpack(ranks[0].found[step][0].summary).count for step in (0, 2)}


def test_a_process_that_is_left_alone(start: Start) -> None:
    """The others never watch, or not this model: nothing is lost, and it is known why."""
    (first,) = start(1, size=2)
    for number in range(3):
        first.step(number)
    first.finish()
    assert [part(0, number) for number in range(3)] == [first.found[number][0].summary for number in range(3)]


def test_a_process_that_ends_early(start: Start) -> None:
    """The others go on by themselves."""
    ranks = start(3, wanted=(10, 10, 10))
    until(lambda: all(each.agreement.is_made for each in ranks))
    threads = [threading.Thread(target=ranks[2].finish)]
    threads[0].start()
    for each in ranks[:2]:
        for number in range(11):
            each.step(number, sampled=number == 10)
    threads[0].join()
    until(lambda: not any(each.agreement.is_made for each in ranks))
    assert "another process has ended its recording" == ranks[1].exchange.complaint
    ((step, _, (sample,)),) = ranks[0].exchange.take()
    assert (10, part(0, 10)) == (step, sample.summary)


def test_an_error_without_a_text_is_named() -> None:
    """torch raises some of those; the thread still ends as it should."""

    class Silent:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError

    alone = Exchange(Silent(), "silent", 0, 2, Agreement())
    alone.start()
    alone._thread.join(30)
    assert "the processes cannot communicate (RuntimeError)" == alone.complaint


def test_a_process_that_dies(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connections break in the midst of a talk: the others keep their own parts, and say why."""
    monkeypatch.setattr(meeting, "PATIENCE_SECS", 0.5)
    ranks = start(2, wanted=(1, 1))
    until(lambda: all(each.agreement.is_made for each in ranks))
    ranks[0].step(0)
    ranks[0].step(1)
    until(lambda: bool(ranks[0].exchange.complaint))
    assert "cannot communicate" in ranks[0].exchange.complaint
    ranks[0].finish()
    assert [part(0, 1)] == [each.summary for each in ranks[0].found[1]]


def test_letters_are_read_as_they_were_written() -> None:
    """Merged in the order of the processes, and each told of once."""
    letters = [
        RankMessage(
            {WEIGHT: part(rank, 0), GRADIENT: part(rank, 1)}, {rank: [StepRecord(3, 1.5, {"a": 0.5})]}
        )
        for rank in range(3)
    ]
    whole = RankMessage.unpack(merged([each.pack() for each in letters]))
    assert kernel.merge([part(rank, 0) for rank in range(3)]) == whole.parts[WEIGHT]
    assert kernel.merge([part(rank, 1) for rank in range(3)]) == whole.parts[GRADIENT]
    assert [0, 1, 2] == list(whole.told)
    assert StepRecord(3, 1.5, {"a": 0.5}) == whole.told[1][0]


def until(is_so: Callable[[], bool]) -> None:
    for _ in range(3000):
        if is_so():
            return
        threading.Event().wait(0.01)
    pytest.fail("it did not come about in 30 s")
