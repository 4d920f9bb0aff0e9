"""A collector whose disk is full, broken or stuck: agents wait, others are served, nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import pytest

from tb_netdebug.transport.notices import Notices
from tests.support.collector_process import CollectorProcess
from tests.support.faults import FaultyDisk
from tests.support.stream_peer import MAIN_NAME, Agent, Peer, joined

SIDE_NAME = "rank1.1700000000.host.2.0000.netdebug"
OTHER = "f" * 32


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "logdir"


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as process:
        yield process


def landed(root: Path) -> bytes:
    return (root / "run" / MAIN_NAME).read_bytes()


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another process is about to do; fails after a minute."""
    for _ in range(6000):
        if condition():
            return
        Event().wait(0.01)
    pytest.fail("what was waited for did not happen")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_disk_that_takes_nothing_more(root: Path, tmp_path: Path, peer: Peer, code: int) -> None:
    """The agent is told to try again, others are served, and with room everything arrives."""
    disk = FaultyDisk(tmp_path, marker="run/events")
    with CollectorProcess(root, env=disk.env) as collector:
        agent = joined(collector, peer)
        agent.offer()
        agent.chunk(b"0123", at=0)
        agent.acknowledged(4)
        disk.fail(code, after_bytes=3)
        agent.chunk(b"456789", at=4)
        refusal = agent.until("refusal")
        assert (1, True, os.strerror(code)) == (
            refusal.file,
            refusal.for_now,
            refusal.sentence[-len(os.strerror(code)) - 1 : -1],
        )
        agent.begin("other", number=2)
        agent.offer(SIDE_NAME, file=2, trainer=2, aside=True)
        agent.chunk(b"fine", at=0, file=2)
        agent.acknowledged(4, file=2)
        assert 7 == agent.offer().size
        disk.order("ok")
        agent.chunk(b"789", at=7)
        agent.acknowledged(10)
        assert [refusal.sentence] == collector.notices()
    assert b"0123456789" == landed(root)


def test_a_disk_that_is_read_only(root: Path, tmp_path: Path, peer: Peer) -> None:
    """No file can be made: the agent is told to try again, and it works as soon as the disk does."""
    disk = FaultyDisk(tmp_path)
    disk.order(f"open {errno.EROFS}")
    with CollectorProcess(root, env=disk.env) as collector:
        agent = joined(collector, peer)
        refusal = agent.offer()
        assert (1, True, True) == (refusal.file, refusal.for_now, "Read-only file system" in refusal.sentence)
        disk.order("ok")
        assert 0 == agent.offer().size
        agent.chunk(b"0123", at=0)
        agent.acknowledged(4)
        assert [refusal.sentence] == collector.notices()
    assert b"0123" == landed(root)


def test_what_a_person_is_told() -> None:
    """At once, and then not with every try of every trainer."""
    told: list[str] = []
    times = iter((0, 1, 9, 11, 30, 700, 711))
    notices = Notices(told.append, lambda: next(times))
    for sentence in "aabbbba":
        notices.add(sentence)
    assert ["a", "b (2 more before.)", "b (1 more before.)", "a"] == told


def test_two_sentences_in_turn_are_not_told_for_ever() -> None:
    """Each comes again after its own ten minutes."""
    told: list[str] = []
    times = iter(range(0, 660, 11))
    notices = Notices(told.append, lambda: next(times))
    for sentence in "ab" * 30:
        notices.add(sentence)
    assert ["a", "b", "a (54 more before.)", "b"] == told


def test_a_sync_that_fails(root: Path, tmp_path: Path, peer: Peer) -> None:
    """What the disk may not have is not acknowledged, and is taken again from the agent."""
    disk = FaultyDisk(tmp_path, marker="run/events")
    with CollectorProcess(root, env=disk.env) as collector:
        agent = joined(collector, peer)
        agent.offer()
        agent.chunk(b"0123", at=0)
        agent.acknowledged(4)
        disk.order(f"sync {errno.EIO}")
        agent.chunk(b"4567", at=4)
        assert agent.until("refusal", "ack").for_now
        disk.order("ok")
        assert 4 == agent.offer().size
        agent.chunk(b"4567", at=4)
        agent.acknowledged(8)
    assert b"01234567" == landed(root)


def test_a_stuck_disk_holds_nobody_else_up(root: Path, tmp_path: Path, peer: Peer) -> None:
    """While a write hangs, agents come and go, and a stop of the collector is not needed to go on."""
    disk = FaultyDisk(tmp_path, marker="run/events")
    with CollectorProcess(root, env=disk.env) as collector:
        agent = joined(collector, peer)
        agent.offer()
        disk.order("stall")
        agent.chunk(b"0123", at=0)
        until(lambda: disk.refusals > 0)
        assert 1 == Agent(peer.stream(collector.address), OTHER).greet().version
        disk.order("ok")
        agent.acknowledged(4)
