"""How trainings ended and whether they go on, as their files and the agents beside them tell."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader.pulse import LIVE_SECS, SILENT_SECS, Late, Pulse, pulse
from tb_netdebug.core.eventlog.reader.storage import FileState
from tb_netdebug.core.eventlog.reader.witnesses import Account, is_agents, rank_of
from tests.support.agents import ended, sample

SECS = 1_700_000_000
START = float(SECS)


def own(rank: int = 0, *, host: str = "far", pid: int = 7, secs: int = SECS) -> str:
    prefix = "events.out.tfevents" if rank == 0 else f"plugins/netdebug/rank{rank}"
    return f"/run/{prefix}.{secs}.{host}.{pid}.0000.netdebug"


def agents(rank: int = 0) -> str:
    return f"/run/plugins/netdebug/agent{rank}.{SECS}.far.7.0001.netdebug"


def at(changed: float) -> FileState:
    return FileState(100, changed, (1, 1))


def account(**changes: object) -> Account:
    found = Account()
    found.add(sample(START + 1))
    if changes:
        found.add(sample(START + 50, ending=ended(START + 50, **changes)))  # type: ignore[arg-type]
    return found


def test_a_file_name_tells_who_wrote_it() -> None:
    """An agent, or the training of a rank."""
    paths = [own(), own(3), agents(12), "/run/events.out.tfevents.1.agent0.x"]
    assert [False, False, True, False] == [is_agents(path) for path in paths]
    assert [0, 3, 12, 0] == [rank_of(path) for path in paths]


def test_an_ending_is_known_at_once() -> None:
    """Also while the last records are fresh."""
    found = pulse({own(): at(START + 49), agents(): at(START + 50)}, {0: account(signal=9)}, now=START + 51)
    assert ("ended", None, 9) == (found.state, found.late, found.endings[0].signal)


def test_the_ending_of_an_earlier_training_is_none_of_this_one() -> None:
    """A run that was resumed, with an agent or without, goes on."""
    later = SECS + 3600
    files = {own(): at(START + 49), own(secs=later): at(later + 5.0), agents(): at(START + 50)}
    found = pulse(files, {0: account(signal=9)}, now=later + 6.0)
    assert Pulse("live", {}, None) == found
    assert Pulse("idle", {}, None) == pulse(files, {0: account(signal=9)}, now=later + 600.0)


@pytest.mark.parametrize(
    ("quiet", "agent", "late"),
    [
        (LIVE_SECS - 1, 1.0, None),
        (LIVE_SECS + 2, 1.0, Late(START, True, (0,))),
        (600.0, SILENT_SECS - 1, Late(START, True, (0,))),
        (600.0, SILENT_SECS + 1, Late(START + 600 - SILENT_SECS - 1, False, (0,))),
    ],
)
def test_silence_is_told_with_what_the_agent_knows(quiet: float, agent: float, late: Late | None) -> None:
    """Since the training, or else anybody, said something."""
    now = START + quiet
    found = pulse({own(): at(START), agents(): at(now - agent)}, {0: account()}, now=now)
    assert (late, "live" if late is None else "idle") == (found.late, found.state)


def test_without_an_agent_nothing_is_claimed_of_another_machine() -> None:
    """It may be stuck, or done."""
    assert Pulse("idle", {}, None) == pulse({own(): at(START)}, {}, now=START + 60)


def test_long_steps_are_no_silence() -> None:
    """Three of them, but not for ever."""
    files = {own(): at(START), agents(): at(START + 40)}
    assert Pulse("live", {}, None) == pulse(files, {0: account()}, now=START + 41, step_secs=30.0)
    assert pulse(files, {0: account()}, now=START + 91, step_secs=30.0).late
    for strange in (float("nan"), float("inf"), -1.0):
        assert pulse(files, {0: account()}, now=START + 301, step_secs=strange).late


def test_ranks_are_told_apart() -> None:
    """One that is silent among others that go on, and one that was killed."""
    files = {own(): at(START + 99), own(1): at(START + 20), own(2): at(START + 5), agents(1): at(START + 40)}
    files[agents(2)] = at(START + 50)
    found = pulse(files, {1: account(), 2: account(code=1)}, now=START + 100)
    assert ("live", Late(START + 40, False, (1,)), [2]) == (found.state, found.late, [*found.endings])
    both = pulse(files, {0: account(well=True), 1: account(signal=9), 2: account(code=1)}, now=START + 100)
    assert ("ended", 3, 1) == (both.state, len(both.endings), both.as_dict()["ending"]["rank"])


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process with an event file of its own, as it would name it."""
    code = (
        "import os, socket, sys, time\n"
        "name = f'events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}.0000.netdebug'\n"
        "file = open(os.path.join(sys.argv[1], name), 'w'); print(file.name, flush=True)\n"
        "input(); file.close(); print(flush=True); input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_process_of_this_machine_is_looked_at(trainer: tuple[subprocess.Popen[str], str]) -> None:
    """Alive while it has its file open; closed or killed, it has ended."""
    process, path = trainer
    assert process.stdin is not None
    assert process.stdout is not None
    now = time.time()
    files = {path: at(now - 60)}
    assert Pulse("idle", {}, Late(now - 60, True, (0,))) == pulse(files, {}, now=now)
    # An agent that is gone says nothing about a training that can be seen.
    with_agent = {**files, agents(): at(now - 59)}
    assert Late(now - 60, True, (0,)) == pulse(with_agent, {}, now=now).late
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    assert Pulse("ended", {}, None) == pulse(files, {}, now=now)


def test_a_number_that_another_process_has_by_now_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the file not open; where that cannot be seen, it is younger than the file."""
    files = {own(host=socket.gethostname(), pid=os.getpid()): at(START)}
    assert Pulse("ended", {}, None) == pulse(files, {}, now=time.time())
    monkeypatch.setattr("tb_netdebug.core.eventlog.reader.pulse._has_open", lambda pid, name: None)
    assert Pulse("ended", {}, None) == pulse(files, {}, now=time.time())
    new = {own(host=socket.gethostname(), pid=os.getpid(), secs=int(time.time())): at(START)}
    assert Late(START, True, (0,)) == pulse(new, {}, now=time.time()).late
