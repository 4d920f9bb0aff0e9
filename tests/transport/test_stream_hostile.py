"""Peers that break the protocol: the collector lives, serves others, and writes nothing outside its root."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tb_netdebug.transport.limits import Limits
from tb_netdebug.transport.places import place_of, run_of
from tb_netdebug.transport.stream_pb2 import Begin, Chunk, Control, Hello, Leave, Offer, Up
from tests.support.collector_process import CollectorProcess
from tests.support.faults import FaultyDisk
from tests.support.half_open import HalfOpen
from tests.support.stream_peer import AGENT, MAIN_NAME, Agent, Peer, chunk

SIDE_NAME = "agent1.1700000000.host.2.0000.netdebug"
# A thousandth of what a bomb would unfold to, and more than anything honest needs.
MOST_GROWTH_BYTES = 100 << 20
SHORT = {"hello_secs": 0.5, "handshake_secs": 0.5, "idle_secs": 0.5}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lies beside the root: nobody may add to it or change it."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "precious").write_bytes(b"precious")
    return folder


@pytest.fixture(scope="module")
def both(outside: Path) -> Iterator[tuple[CollectorProcess, Peer]]:
    """One collector for all of it: what one peer does must not trouble the next one."""
    with CollectorProcess(outside / "root", **SHORT) as collector, Peer() as peer:
        yield collector, peer


@pytest.fixture(autouse=True)
def honest_agents_are_served(both: tuple[CollectorProcess, Peer], outside: Path) -> Iterator[None]:
    """After each test, an honest agent gets its file through, and nothing but runs is there."""
    yield
    serve_honest_agent(*both)
    assert {"precious", "root", "runtime"} == {path.name for path in outside.iterdir()}
    assert b"precious" == (outside / "precious").read_bytes()
    for folder, _, names in os.walk(outside / "root"):
        for name in names:
            check_is_ours(Path(folder).relative_to(outside / "root"), name)


def check_is_ours(folder: Path, name: str) -> None:
    """Only files whose names are ours, or copies that were set aside, in folders that a run may have."""
    if name.startswith("set-aside."):
        return
    run, is_aside = folder.parts, False
    if folder.parts[-2:] == ("plugins", "netdebug") and not name.startswith("events"):
        run, is_aside = folder.parts[:-2], True
    place_of(run_of(run, Limits()), name, in_side_folder=is_aside)


def serve_honest_agent(collector: CollectorProcess, peer: Peer) -> None:
    agent = Agent(peer.stream(collector.address), os.urandom(16).hex())
    agent.greet()
    agent.begin("honest", agent.name)
    agent.offer()
    agent.chunk(b"as it should be", at=0)
    agent.acknowledged(15)
    agent.stream.say_nothing_more()
    assert "OK" == agent.stream.end()[0]
    assert b"as it should be" == (collector.root / "honest" / agent.name / MAIN_NAME).read_bytes()


# ---- any message at all

SURROGATES = [chr(code) for code in range(0xD800, 0xE000)]
NAMES = ["run", "..", "../precious", "/etc", "", "plugins", "\x1b[2J", MAIN_NAME, SIDE_NAME, "x" * 999]
names = st.sampled_from(NAMES) | st.text(st.characters(exclude_characters=SURROGATES), max_size=300)
small = st.integers(0, 3)
data = st.binary(max_size=50)
hellos = st.builds(Hello, version=small, agent=st.sampled_from([AGENT, "e" * 32, ""]))
begins = st.builds(Begin, trainer=small, run=st.lists(names, max_size=20), takes_control=st.booleans())
offers = st.builds(
    Offer, trainer=small, file=small, name=names, in_side_folder=st.booleans(), restart=st.booleans()
)
chunks = st.builds(Chunk, file=small, offset=st.integers(0, 2**64 - 1), data=data, crc32c=st.integers(0, 9))
controls = st.builds(Control, trainer=small, data=data, more=st.booleans())
ups = st.one_of(
    hellos.map(lambda hello: Up(hello=hello)),
    begins.map(lambda begin: Up(begin=begin)),
    offers.map(lambda offer: Up(offer=offer)),
    chunks.map(lambda wrong: Up(chunk=wrong)),
    st.builds(lambda data, at, file: chunk(data, at=at, file=file), data, small, small),
    small.map(lambda number: Up(leave=Leave(trainer=number))),
    controls.map(lambda control: Up(control=control)),
)
HELLO = Up(hello=Hello(version=1, agent="e" * 32))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.lists(st.one_of(ups, st.binary(max_size=200)), max_size=25))
def test_any_messages(both: tuple[CollectorProcess, Peer], greets: bool, messages: list[Up | bytes]) -> None:
    """In any order, with any content, also no messages at all: the stream ends in a known way."""
    collector, peer = both
    stream = peer.stream(collector.address)
    stream.send(*([HELLO] if greets else []), *messages)
    stream.say_nothing_more()
    assert stream.end()[0] in ("OK", "INVALID_ARGUMENT")


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.booleans(), st.binary(max_size=500))
def test_any_bytes(both: tuple[CollectorProcess, Peer], is_http2: bool, data: bytes) -> None:
    """Straight into the socket, with the beginning of HTTP/2 and without."""
    with socket.create_connection(("127.0.0.1", both[0].port)) as raw:
        raw.sendall((b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" if is_http2 else b"") + data)


# ---- too much


def test_streams_that_say_nothing(both: tuple[CollectorProcess, Peer]) -> None:
    """Without a Hello a stream ends soon, and so does a connection without a stream."""
    collector, peer = both
    code, sentence = peer.stream(collector.address).end()
    assert ("INVALID_ARGUMENT", "No Hello arrived.") == (code, sentence)
    with socket.create_connection(("127.0.0.1", collector.port)) as silent:
        silent.settimeout(60)
        while silent.recv(1000):
            pass


@pytest.mark.parametrize("is_packed", [False, True])
def test_messages_that_are_too_big(both: tuple[CollectorProcess, Peer], is_packed: bool) -> None:
    """Neither a message beyond the limit nor one that unfolds to a gigabyte comes into memory."""
    collector, peer = both
    before = memory(collector)
    agent = Agent(peer.stream(collector.address, gzip=is_packed), "d" * 32)
    agent.stream.send(b"\0" * (30 << 20))
    assert agent.stream.end()[0] in ("RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "INVALID_ARGUMENT")
    assert memory(collector) - before < 20 << 20


def test_memory_is_bounded(tmp_path: Path) -> None:
    """200 streams that send as much as they can, to a disk that takes nothing: the rest waits there."""
    disk = FaultyDisk(tmp_path, marker="/run")
    with CollectorProcess(tmp_path / "root", env=disk.env) as collector, Peer() as peer:
        agents = [Agent(peer.stream(collector.address), f"{number:032x}") for number in range(200)]
        for agent in agents:
            agent.greet()
            agent.begin(f"run{agent.name}")
            agent.offer()
        before = memory(collector)
        disk.order("stall")
        for agent in agents:
            agent.stream.flood(20, 100_000)
        most = max(memory(collector) - before for _ in watched(2.0))
        disk.order("ok")
        for agent in agents:
            agent.acknowledged(2_000_000)
        assert most < MOST_GROWTH_BYTES


def watched(secs: float) -> Iterator[int]:
    never = threading.Event()
    for number in range(int(secs / 0.05)):
        yield number
        never.wait(0.05)


def memory(collector: CollectorProcess) -> int:
    return int(psutil.Process(collector.process.pid).memory_info().rss)


BEGUN = Up(begin=Begin(trainer=1, run=["a"]))
OFFERED = Up(offer=Offer(trainer=1, file=1, name=MAIN_NAME))
PIECE = Up(control=Control(trainer=1, data=b"x" * 40, more=True))


@pytest.mark.parametrize(
    ("limits", "messages"),
    [
        ({"trainers": 3}, [Up(begin=Begin(trainer=1 + at, run=["a"])) for at in range(4)]),
        ({"files": 3}, [BEGUN, *(Up(offer=Offer(trainer=1, file=1 + at, name="x")) for at in range(4))]),
        ({"control_bytes": 100}, [BEGUN, PIECE, PIECE, PIECE]),
        ({"chunk_bytes": 100}, [BEGUN, OFFERED, chunk(b"x" * 101, at=0)]),
    ],
)
def test_counts_have_an_end(tmp_path: Path, limits: dict[str, int], messages: list[Up]) -> None:
    """Who goes beyond one loses the stream."""
    with CollectorProcess(tmp_path / "root", **limits) as collector, Peer() as peer:
        stream = peer.stream(collector.address)
        stream.send(HELLO, *messages)
        code, sentence = stream.end()
    assert ("INVALID_ARGUMENT", "at most") == (code, "at most" if "at most" in sentence.lower() else sentence)


def test_streams_have_an_end(tmp_path: Path) -> None:
    """Beyond the limit they are sent away for now, and room comes back."""
    with CollectorProcess(tmp_path / "root", streams=2) as collector, Peer() as peer:
        first, second = (Agent(peer.stream(collector.address), name * 32) for name in "ab")
        first.greet()
        second.greet()
        assert "RESOURCE_EXHAUSTED" == peer.stream(collector.address).end()[0]
        first.stream.say_nothing_more()
        assert "OK" == first.stream.end()[0]
        outcome = ""
        while outcome != "welcome":  # the room is counted a moment after the end was told
            third = peer.stream(collector.address)
            third.send(HELLO)
            outcome = third.outcome()
            assert outcome in ("welcome", "RESOURCE_EXHAUSTED")


# ---- connections that look alive


def test_a_connection_that_is_half_open(tmp_path: Path) -> None:
    """A peer whose machine is gone says nothing, also not that it is gone: it is given up by itself."""
    with (
        CollectorProcess(tmp_path / "root", keep_alive_secs=0.3, keep_alive_wait_secs=0.3) as collector,
        HalfOpen(collector.port) as cable,
        Peer() as peer,
    ):
        agent = Agent(peer.stream(cable.address))
        agent.greet()
        agent.begin("run")
        agent.offer()
        agent.chunk(b"one", at=0)
        agent.acknowledged(3)
        assert 1 == len(collector.trainers())
        cable.cut()
        never = threading.Event()
        while collector.trainers():
            never.wait(0.05)
        other = Agent(peer.stream(collector.address), "b" * 32)
        other.greet()
        other.begin("run")
        assert 3 == other.offer().size


def test_a_peer_that_does_not_listen(tmp_path: Path) -> None:
    """Answers that nobody takes pile up nowhere: its stream waits, others go on, and a stop does not wait."""
    nonsense = Up(offer=Offer(trainer=1, file=1, name="x"))
    with CollectorProcess(tmp_path / "root") as collector, Peer() as peer:
        before = memory(collector)
        deaf = peer.stream(collector.address, is_deaf=True)
        deaf.send(HELLO, BEGUN)
        deaf.repeat(nonsense, 1_000_000)
        for _ in range(5):
            serve_honest_agent(collector, peer)
        assert memory(collector) - before < 20 << 20
        collector.stop()
