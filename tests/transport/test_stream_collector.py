"""The collector over real gRPC: appends, syncs, acknowledges, and goes on after any end of either side."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

import google_crc32c
import pytest

from tests.support.collector_process import CollectorProcess
from tests.support.stream_peer import AGENT, MAIN_NAME, Agent, Peer, chunk, joined

SIDE_NAME = "rank1.1700000000.host.2.0000.netdebug"
OTHER = "f" * 32


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "logdir"


@pytest.fixture
def collector(root: Path) -> Iterator[CollectorProcess]:
    with CollectorProcess(root) as process:
        yield process


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as process:
        yield process


@pytest.fixture
def agent(collector: CollectorProcess, peer: Peer) -> Agent:
    """Greeted, with a trainer of the run "run"."""
    return joined(collector, peer)


def landed(root: Path, name: str = MAIN_NAME) -> bytes:
    return (root / "run" / name).read_bytes()


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another process is about to do; fails after a minute."""
    for _ in range(6000):
        if condition():
            return
        Event().wait(0.01)
    pytest.fail("what was waited for did not happen")


def test_what_is_acknowledged_is_in_the_file(agent: Agent, root: Path) -> None:
    """Chunk after chunk, in two files of a trainer, each in the folder that is meant for it."""
    assert 0 == agent.offer().size
    assert 0 == agent.offer(SIDE_NAME, file=2, aside=True).size
    for number in range(10):
        agent.chunk(b"%d" % number, at=number)
        agent.chunk(b"%d" % (9 - number), at=number, file=2)
    agent.acknowledged(10)
    agent.acknowledged(10, file=2)
    assert (b"0123456789", b"9876543210") == (landed(root), landed(root, f"plugins/netdebug/{SIDE_NAME}"))


def test_a_welcome_says_how_much(collector: CollectorProcess, peer: Peer) -> None:
    """The agent learns the window and the size of a chunk."""
    welcome = Agent(peer.stream(collector.address)).greet()
    assert (1, 32, 16 << 20, 256 << 10) == (
        welcome.version, len(welcome.collector), welcome.window_bytes, welcome.chunk_bytes,
    )  # fmt: skip


def test_going_on_after_a_cut(collector: CollectorProcess, peer: Peer, agent: Agent, root: Path) -> None:
    """A new stream of the same agent takes over from one that looks alive, and is told what is there."""
    agent.offer()
    agent.chunk(b"0123456789", at=0)
    agent.acknowledged(10)
    again = joined(collector, peer)
    have = again.offer()
    assert (10, 10, google_crc32c.value(b"0123456789")) == (have.size, have.tail_bytes, have.tail_crc32c)
    again.chunk(b"89ab", at=8)  # what is there already is left out
    again.acknowledged(12)
    assert b"0123456789ab" == landed(root)
    assert "UNAVAILABLE" == agent.stream.end()[0]


def test_another_agent_waits_for_its_turn(collector: CollectorProcess, peer: Peer, agent: Agent) -> None:
    """A file is taken from one agent at a time; when that one is gone, the next one may go on."""
    agent.offer()
    agent.chunk(b"one", at=0)
    agent.acknowledged(3)
    other = joined(collector, peer, OTHER)
    refusal = other.offer()
    assert ("Another agent", True) == (refusal.sentence[:13], refusal.for_now)
    agent.stream.say_nothing_more()
    assert "OK" == agent.stream.end()[0]
    assert 3 == other.offer().size


def test_two_collectors_with_one_logdir(
    collector: CollectorProcess, peer: Peer, agent: Agent, root: Path
) -> None:
    """As when TensorBoard and `netdebug collect` are started on the same one: a file has one of them."""
    agent.offer()
    agent.chunk(b"one", at=0)
    agent.acknowledged(3)
    with CollectorProcess(root) as second:
        other = joined(second, peer, OTHER)
        assert other.offer().for_now
        collector.kill()
        assert 3 == other.offer().size


def test_kills_at_random_instants(root: Path, peer: Peer) -> None:
    """Nothing that was acknowledged is lost with a collector, and no byte is doubled."""
    seed = random.Random(1)
    whole = seed.randbytes(300_000)
    acknowledged = 0
    for life in range(6):
        with CollectorProcess(root, sync_secs=0.01) as collector:
            agent = joined(collector, peer, OTHER if life % 2 else AGENT)
            have = agent.offer()
            assert have.size >= acknowledged
            assert whole[: have.size] == landed(root)
            assert google_crc32c.value(whole[have.size - have.tail_bytes : have.size]) == have.tail_crc32c
            at = have.size
            for _ in range(seed.randrange(1, 20)):
                piece = whole[at : at + seed.randrange(1, 9000)]
                agent.chunk(piece, at=at)
                at += len(piece)
            if life % 3:
                acknowledged = agent.until("ack").size
            collector.kill()
    assert whole.startswith(landed(root))


@pytest.mark.parametrize("stops", [True, False])
def test_an_end_leaves_nothing_behind(
    collector: CollectorProcess, agent: Agent, root: Path, stops: bool
) -> None:
    """By a stop, or by the mere end of the program: everything that came is on the disk and acknowledged, and
    the agent hears that it may come again."""
    agent.offer()
    agent.chunk(b"x" * 1000, at=0)
    agent.acknowledged(1000)
    agent.chunk(b"y" * 1000, at=1000)
    until(lambda: 2000 == len(landed(root)))
    if stops:
        collector.stop()
    else:
        assert 0 == collector.leave()
    agent.acknowledged(2000)
    assert "UNAVAILABLE" == agent.stream.end()[0]
    assert [] == list((collector.runtime / "netdebug").iterdir())


def test_leaving_acknowledges_at_once(root: Path, peer: Peer) -> None:
    """The next sync is due in an hour, and only the end of the training does not wait for it; its files are
    another agent's to take."""
    with CollectorProcess(root, sync_secs=3600.0) as collector:
        agent = joined(collector, peer)
        agent.offer()
        agent.chunk(b"one", at=0)
        assert 3 == agent.until("ack").size
        for at in range(3, 103):
            agent.chunk(b"x", at=at)
        agent.leave()
        assert 103 == agent.until("ack").size
        assert 103 == joined(collector, peer, OTHER).offer().size


def test_a_fast_stream_is_not_held_up(root: Path, peer: Peer) -> None:
    """A quarter of the window is acknowledged at once, however long ago the last sync was."""
    with CollectorProcess(root, sync_secs=3600.0, window_bytes=400_000) as collector:
        agent = joined(collector, peer)
        agent.offer()
        for number in range(20):
            agent.chunk(b"x" * 50_000, at=50_000 * number)
        agent.acknowledged(900_000)


def test_damage_and_gaps(agent: Agent, root: Path) -> None:
    """A wrong checksum and a missing piece are refused for now; after a new offer it goes on."""
    agent.offer()
    agent.chunk(b"one", at=0)
    agent.acknowledged(3)
    broken = chunk(b"two", at=3)
    broken.chunk.data = b"tvo"
    for wrong in (broken, chunk(b"four", at=7)):
        agent.stream.send(wrong)
        refusal = agent.until("refusal")
        assert (1, True) == (refusal.file, refusal.for_now)
        agent.chunk(b"let pass", at=3)  # on the way when the refusal came
        assert 3 == agent.offer().size
    agent.chunk(b"two", at=3)
    agent.acknowledged(6)
    assert b"onetwo" == landed(root)


def test_a_damaged_copy_is_begun_anew(agent: Agent, root: Path) -> None:
    """What the agent does not find in its own file is set aside, and the whole is sent again."""
    agent.offer()
    agent.chunk(b"\0" * 10, at=0)
    agent.acknowledged(10)
    assert 0 == agent.offer(restart=True).size
    agent.chunk(b"0123456789", at=0)
    agent.acknowledged(10)
    assert b"0123456789" == landed(root)


# ---- the debugger's way


def test_controls_both_ways(collector: CollectorProcess, agent: Agent) -> None:
    """Messages come whole, in pieces on the wire; a trainer that was not armed is left alone."""
    agent.begin("armed", number=2, rank=5, takes_control=True)
    agent.control(b"not armed")
    agent.control(b"hello ", number=2, more=True)
    agent.control(b"debugger", number=2)
    key = f"{AGENT}/2"
    until(lambda: [(key, b"hello debugger")] == collector.heard())
    assert [(f"{AGENT}/1", False), (key, True)] == [
        (x["key"], x["takes_control"]) for x in collector.trainers()
    ]
    assert not collector.send(f"{AGENT}/1", b"pause")
    assert not collector.send("nobody/1", b"pause")
    assert not collector.send(AGENT, b"pause")
    assert not collector.send(f"{AGENT}/one", b"pause")
    assert not collector.send(key, b"x" * (5 << 20))
    long = b"0123456789" * 60_000
    assert collector.send(key, long)
    pieces = [agent.until("control") for _ in range(3)]
    assert [True, True, False] == [piece.more for piece in pieces]
    assert long == b"".join(piece.data for piece in pieces)
