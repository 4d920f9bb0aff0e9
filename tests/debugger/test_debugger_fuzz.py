"""Ends of the debugger that are hostile: a hub cannot hurt a training, a training not the hub or the page.

NETDEBUG_FUZZ_CASES makes more of it.
"""

from __future__ import annotations

import json
import os
import random
import socket
import tracemalloc
from typing import Any

import pytest

from tb_netdebug.core.records.json_text import json_bytes
from tb_netdebug.debugger.hub.calls import CallError
from tb_netdebug.debugger.hub.ranks import called
from tb_netdebug.debugger.hub.statements import session_of, state_of
from tb_netdebug.debugger.protocol.arguments import ArgumentError
from tb_netdebug.debugger.protocol.messages import FrameError, decoded, encoded
from tb_netdebug.debugger.trainer import sender
from tb_netdebug.debugger.trainer.breakpoints import MOST_BREAKPOINTS
from tb_netdebug.debugger.trainer.inbox import MOST_CALLS
from tb_netdebug.transport import stream_pb2 as pb
from tb_netdebug.transport.link import Link
from tb_netdebug.transport.local_wire import Unpacker, WireError, packed
from tests.debugger.test_debugger_hub import ANNA, BERT, Wires
from tests.support.debugged import Debugged, debugged
from tests.support.frame_fuzz import call, changed, odd, of_hub, of_trainer
from tests.support.streamed import wait_for

CASES = int(os.environ.get("NETDEBUG_FUZZ_CASES", "400"))
MEGABYTE = 1 << 20


def is_sound(rig: Debugged) -> None:
    """It trains, it can be paused, and what it was made to remember is bounded."""
    rig.leave()
    step = rig.step
    wait_for(lambda: rig.step > step + 3 and not rig.session.is_paused)
    rig.attend()
    assert "paused" == rig.ask("pause")["status"]
    assert "running" == rig.ask("continue")["status"]
    assert [] == [told for told in rig.said if "failed while" in told]
    assert len(rig.session.breakpoints.as_list()) <= MOST_BREAKPOINTS
    assert len(rig.session._sender._owed) <= sender.MOST_OWED
    assert len(rig.session._inbox) <= MOST_CALLS


@pytest.mark.parametrize("seed", range(4))
def test_a_hostile_hub(seed: int) -> None:
    """Whatever it says, the training has the same tensors, goes on, and answers who asks properly."""
    rng = random.Random(seed)
    with debugged() as rig:
        before = {name: array.copy() for name, array in rig.bench.arrays.items()}
        for number in range(CASES):
            rig.session.receive(of_hub(rng))
            if number % 50 == 49:
                wait_for(lambda: not rig.session._inbox or rig.session.is_paused)
        is_sound(rig)
        assert before.keys() == rig.bench.arrays.keys()
        assert all((before[name] == rig.bench.arrays[name]).all() for name in before)


def test_a_hub_that_never_ends_to_ask() -> None:
    """Calls that come as fast as they are served do not keep the training at one place."""
    with debugged() as rig:
        frame = encoded("call", id=1, client="c", verb="presets", arguments={})
        work, steps = rig.session._serve, {rig.step}

        def serve_and_ask(head: Any) -> None:
            steps.add(rig.step)
            if len(steps) < 5:
                rig.session.receive(frame)
            work(head)

        rig.session._serve = serve_and_ask  # type: ignore[method-assign]
        rig.session.receive(frame)
        wait_for(lambda: len(steps) >= 5)
        is_sound(rig)


def test_more_waiting_calls_than_are_owed() -> None:
    """A training that goes on owes a bounded number of answers; the others are refused at once."""
    with debugged() as rig:
        clock_stands = rig.clock.now
        arguments = {"layer": "^nobody$", "wait": 5.0}
        for number in range(3 * sender.MOST_OWED):
            rig.session.receive(encoded("call", id=number, client="c", verb="run_to", arguments=arguments))
            if number % 100 == 99:
                wait_for(lambda: not rig.session._inbox)
        wait_for(lambda: not rig.session._inbox)
        assert (clock_stands, sender.MOST_OWED) == (rig.clock.now, len(rig.session._sender._owed))
        rig.clock.now += 6.0
        wait_for(lambda: not rig.session._sender._owed)
        is_sound(rig)


@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_trainer(seed: int) -> None:
    """The hub keeps the other training as it is, and the page gets nothing but what has the known types."""
    rng = random.Random(seed)
    wires = Wires()
    try:
        good = wires.join("agent/1", run="good", pid=1)
        bad = wires.join("agent/2", run="bad", pid=2, silent=("stack", "modules", "hits", "tensor", "bytes"))
        (key,) = (row["key"] for row in wires.sessions.rows() if row["session"]["run"] == ["good"])
        for number in range(CASES):
            ids = range(max(1, number // 8 - 3), number // 8 + 4)
            session = {**bad.about, "run": [rng.choice(["bad", "good", "else"])], "pid": rng.randint(2, 4)}
            wires.sessions.take("agent/2", of_trainer(rng, session, bad.state(), ids))
            if number % 8 == 0:
                ask_silent(wires, rng)
            if number % 100 == 99:
                wires.pass_by(0.1)
        for row in wires.sessions.rows():
            json.loads(json_bytes(row))
            assert row["session"] == session_of(row["session"])
            assert row["state"] == state_of(row["state"])
        assert len(wires.sessions.rows()) <= 12
        good.step = 77
        good.tell()
        wires.pass_by(1.0)
        (row,) = (row for row in wires.sessions.rows() if row["key"] == key)
        assert (77, True, good.about) == (row["state"]["step"], row["is_connected"], row["session"])
        assert "running" == called(wires.sessions, ANNA, key, "continue", {})["status"]
    finally:
        wires.sessions.close()


def ask_silent(wires: Wires, rng: random.Random) -> None:
    """So that there are calls that an answer may be given to."""
    for entry in list(wires.sessions._entries.values()):
        if entry.trainer == "agent/2":
            try:
                wires.sessions.ask(entry, BERT, rng.choice(["stack", "modules", "hits"]), {})
            except CallError:
                entry.forget_calls("enough")


@pytest.mark.parametrize("seed", range(2))
def test_a_hostile_page(seed: int) -> None:
    """What is no call is refused in a sentence, by the hub already; nothing else is raised."""
    rng = random.Random(seed)
    wires = Wires()
    try:
        session, refused = wires.join(run="a"), 0
        for _ in range(CASES):
            asked = changed(call(rng), rng)
            asked = asked if isinstance(asked, dict) else {}
            verb, arguments = asked.get("verb", ""), asked.get("arguments", {})
            if not isinstance(verb, str) or not isinstance(arguments, dict):
                continue  # the route looks at these, see test_plugin_debugger.py
            arguments = {**arguments, "wait": 0.0} if "wait" in arguments else arguments
            before = len(session.asked)
            try:
                called(wires.sessions, ANNA, wires.key(), verb, arguments)
            except (CallError, ArgumentError):
                refused += 1
            for head in session.asked[before:]:
                assert head["verb"] == verb
        assert 0 < refused < CASES
    finally:
        wires.sessions.close()


@pytest.mark.parametrize("value", [10**400, -(10**400), [], {}, True, "1", None])
def test_a_number_that_is_none(value: Any) -> None:
    """Refused in a sentence, also when it is too big for what the machine calculates with."""
    wires = Wires()
    try:
        session = wires.join(run="a")
        arguments = {"optimizer": 0, "value": value}
        with pytest.raises(ArgumentError, match="value "):
            called(wires.sessions, ANNA, wires.key(), "set_learning_rate", arguments)
        assert [] == session.asked
    finally:
        wires.sessions.close()


@pytest.mark.parametrize("seed", range(2))
def test_any_frame(seed: int) -> None:
    """It is read or refused, in bounded memory, and nothing else is raised."""
    rng = random.Random(seed)
    tracemalloc.start()
    try:
        for _ in range(CASES):
            data = of_hub(rng)
            try:
                head = decoded(data).head
            except FrameError:
                continue
            json_bytes(head)
        assert tracemalloc.get_traced_memory()[1] < 32 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("seed", range(3))
def test_a_hostile_agent(seed: int, tmp_path: Any) -> None:
    """On the socket between trainer and agent: a connection that makes no sense is given up, and the next one
    works."""
    rng = random.Random(seed)
    heard: list[bytes] = []
    link = Link.prepare(
        remote="127.0.0.1:9", run_dir=tmp_path, run=("run",), rank=0, is_spool=False, takes_control=True,
        notice=lambda text: None,
    )  # fmt: skip
    link.attach(heard.append, lambda: None)
    for _ in range(CASES):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(stream_of(rng))
            theirs.shutdown(socket.SHUT_WR)
            unpacker = Unpacker()
            try:
                while link._hear(ours, unpacker):
                    assert len(unpacker._data) <= 17 * MEGABYTE
            except (WireError, OSError):
                continue
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(packed(pb.ToTrainer(control=b"still there")))
        assert link._hear(ours, Unpacker())
    assert b"still there" == heard[-1]
    link._forget()


def stream_of(rng: random.Random) -> bytes:
    messages = [
        pb.ToTrainer(notice=str(odd(rng)).encode("utf-8", "replace").decode()),
        pb.ToTrainer(connected=rng.random() < 0.5),
        pb.ToTrainer(control=of_hub(rng)),
    ]
    data = bytearray(b"".join(packed(rng.choice(messages)) for _ in range(rng.randint(1, 5))))
    for _ in range(rng.randint(0, 3)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[:60_000])
