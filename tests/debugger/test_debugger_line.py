"""The way from a training to the hub: by a real agent and gRPC, through every restart, at no cost alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.transport.control_line import best_of, is_same
from tb_netdebug.transport.discovery import FoundCollector
from tests.support.hub_page import HubPage
from tests.support.scripted_session import DebuggedTraining
from tests.support.streamed import Home, wait_for
from tests.support.tensorboard_process import TensorBoard
from tests.support.terminal import environment


@pytest.fixture
def home() -> Iterator[Home]:
    with Home() as found:
        yield found


def board_of(home: Home, logdir: Path, *flags: str) -> TensorBoard:
    """Its collector is there from the beginning."""
    return TensorBoard("--logdir", str(logdir), "--netdebug_listen", ":0", *flags, env=home.env)


@contextmanager
def collect(home: Home, logdir: Path) -> Iterator[str]:
    """`netdebug collect`, and where it listens."""
    words = ["-m", "tb_netdebug", "collect", "--listen", ":0", "--logdir", str(logdir)]
    with subprocess.Popen(
        [sys.executable, *words], env=environment(**home.env), text=True, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip().removesuffix(".").rpartition("listening at ")[2]
        finally:
            process.terminate()


def address(board: TensorBoard) -> str:
    return board.wait_for_log(r"takes the records of trainings at (\S+)")[1]


def test_a_training_is_found_and_debugged(home: Home, logdir: Path) -> None:
    """Without an address, and no record goes anywhere; its run is called as in the list of runs."""
    run_dir = logdir / "group/run"
    with board_of(home, logdir) as board, DebuggedTraining(home, run_dir, run="run") as training:
        page = HubPage(board)
        key = page.key()
        assert ["group", "run"] == page.entry(key)["session"]["run"]
        page.attend(key)
        assert {"heard": {}} == page.call(key, "recheck")
        assert [1] == training.facts()["leases"]
        training.do("leave")
        wait_for(lambda: not page.sessions())
        wait_for(lambda: not home.agents())
    assert ([], []) == ([*logdir.iterdir()], home.notes())


def test_without_a_tensorboard_nothing_runs(home: Home, logdir: Path) -> None:
    """But a look at a folder every few seconds: no agent, no gRPC, and nobody is told anything."""
    with DebuggedTraining(home, logdir / "run") as training:
        facts = training.facts()
        assert (["MainThread", "netdebug-control-line"], [], []) == (
            facts["threads"],
            facts["imports"],
            facts["told"],
        )
        assert [] == home.agents()
        with board_of(home, logdir) as board:
            HubPage(board).key()
        wait_for(lambda: not home.agents())
        wait_for(lambda: "netdebug-link" not in training.facts()["threads"])
        with board_of(home, logdir) as board:
            HubPage(board).key()
        assert 2 == training.facts()["greetings"]
        assert [] == training.facts()["told"]


def test_a_collector_without_a_hub_is_not_asked(home: Home, logdir: Path, tmp_path: Path) -> None:
    """`netdebug collect` takes records, and has no page from which anybody could debug."""
    with (
        collect(home, tmp_path / "there"),
        DebuggedTraining(home, logdir / "run") as training,
        board_of(home, logdir) as board,
    ):
        HubPage(board).key()
        assert 1 == training.facts()["greetings"]
    assert 1 == len([*home.run.glob("netdebug/agent-*.lock")])


@pytest.mark.parametrize("shares", [True, False])
def test_a_collector_without_a_hub_is_told_of(home: Home, tmp_path: Path, shares: bool) -> None:
    """Once, to a training that was sent there to be debugged, with or without its records."""
    with (
        collect(home, tmp_path / "there") as target,
        DebuggedTraining(home, tmp_path / "run", target, shares=shares) as training,
    ):
        wait_for(lambda: training.facts()["told"])
        training.wait_until_connected()
        with DebuggedTraining(home, tmp_path / "other", target, shares=shares, run="other") as other:
            wait_for(lambda: other.facts()["told"])  # so the agent has gone round since
        (told,) = training.facts()["told"]
    assert f"nobody can debug this training: {target} is a collector without a debugger" in told
    assert "tensorboard --netdebug_listen" in told


def test_a_killed_agent_is_replaced_and_the_session_goes_on(home: Home, logdir: Path) -> None:
    """Under its key, with those who attend it and who holds its controls."""
    with board_of(home, logdir) as board, DebuggedTraining(home, logdir / "run") as training:
        page = HubPage(board)
        key = page.key()
        page.attend(key, take=key)
        os.kill(home.agent(), signal.SIGKILL)
        training.wait_until_connected(2)
        assert key == page.key()
        page.attend(key)
        assert page.client == page.entry(key)["holder"]["client"]
        page.call(key, "continue")
        assert 1 == training.facts()["leases"][-1]


def test_a_killed_training_is_noticed(home: Home, logdir: Path) -> None:
    """At once, and by who listens to the stream."""
    with board_of(home, logdir) as board, DebuggedTraining(home, logdir / "run") as training:
        page = HubPage(board)
        key = page.key()
        with board.stream() as stream:
            stream.until("hello")
            training.kill()
            told = stream.until("debugger").data
        assert (key, False) == (told["key"], told["is_connected"])
        reply = page.post("debugger/call", session=key, verb="hits")
        assert (422, "The run is not connected at the moment.") == (reply.status, reply.json()["error"])
    wait_for(lambda: not home.agents())


def test_a_killed_tensorboard_lets_go_of_the_agent(home: Home, logdir: Path) -> None:
    """Nothing goes on for a hub that is not there."""
    with DebuggedTraining(home, logdir / "run") as training:
        with board_of(home, logdir) as board:
            HubPage(board).key()
            board.process.kill()
            wait_for(lambda: not home.agents())
        assert [] == training.facts()["told"]


def test_a_tensorboard_that_ends_lets_the_training_go(home: Home, logdir: Path) -> None:
    """At once: it need not wait for its lease to end."""
    with DebuggedTraining(home, logdir / "run") as training, board_of(home, logdir) as board:
        page = HubPage(board)
        key = page.key()
        page.attend(key)
        page.call(key, "pause")
        board.process.terminate()
        wait_for(lambda: training.facts()["leases"] == [1, 0])


def test_a_forked_child_says_nothing(home: Home, logdir: Path) -> None:
    """And what it closes stays open for its parent."""
    with board_of(home, logdir) as board, DebuggedTraining(home, logdir / "run") as training:
        page = HubPage(board)
        key = page.key()
        assert not training.do("fork")
        assert {"heard": {}} == page.call(key, "recheck")


def test_a_hub_with_an_address(home: Home, logdir: Path) -> None:
    """Where nobody answers that is said; when somebody does, it is connected."""
    with board_of(home, logdir) as board:
        target = address(board)
    with DebuggedTraining(home, logdir / "run", target) as training:
        wait_for(lambda: training.facts()["told"])
        assert f"the debugger at {target} cannot be reached" in training.facts()["told"][0]
        assert "records" not in training.facts()["told"][0]
        flags = ("--logdir", str(logdir), "--netdebug_listen", target)
        with TensorBoard(*flags, env=home.env) as board:
            page = HubPage(board)
            assert {"heard": {}} == page.call(page.key(), "recheck")
            wait_for(lambda: len(training.facts()["told"]) == 2)
        assert f"the debugger at {target} answers." == training.facts()["told"][1]


def test_records_and_debugger_share_a_link(home: Home, logdir: Path, tmp_path: Path) -> None:
    """Where both go to the same place; the files arrive as without a debugger."""
    with board_of(home, logdir) as board:
        run_dir = tmp_path / "here/run"
        with DebuggedTraining(home, run_dir, address(board), shares=True) as training:
            page = HubPage(board)
            assert {"heard": {}} == page.call(page.key(), "recheck")
            assert ["netdebug-link"] == [each for each in training.facts()["threads"] if each != "MainThread"]
            run_dir.mkdir(parents=True)
            (run_dir / f"rank0.1.box.{training.process.pid}.1.netdebug").write_bytes(b"")
            assert 1 == board.json("runs")["collector"]["trainers"]
            wait_for(lambda: [*logdir.rglob("agent0.*")])


def test_ranks_of_different_speed_pause_at_the_same_batch(home: Home, logdir: Path) -> None:
    """As they go on together: one is three times as fast, and neither knows of the other."""
    about: dict[str, Any] = {"world_size": 2, "group": "g"}
    with (
        board_of(home, logdir) as board,
        DebuggedTraining(home, logdir / "run", rate=900, rank=0, **about) as slow,
        DebuggedTraining(home, logdir / "run", rate=2700, rank=1, **about) as fast,
    ):
        page = HubPage(board)
        key = page.key(2)
        page.attend(key)
        for _ in range(3):
            page.call(key, "pause")
            # The slow one has twice as long to go as they were running: on a busy machine that takes a while.
            wait_for(lambda: all(each.facts()["is_paused"] for each in (slow, fast)), secs=150.0)
            assert slow.facts()["step"] == fast.facts()["step"]
            page.call(key, "continue")
            wait_for(lambda: not any(each.facts()["is_paused"] for each in (slow, fast)))


def test_one_that_never_falls_silent_keeps_nobody_waiting(home: Home, logdir: Path) -> None:
    """The two share a helper process, and another one comes later."""
    about: dict[str, Any] = {"world_size": 2, "group": "g"}
    with (
        board_of(home, logdir) as board,
        DebuggedTraining(home, logdir / "run", rate=1e6, rank=0, **about) as loud,
    ):
        loud.wait_until_connected()
        with DebuggedTraining(home, logdir / "run", rank=1, **about) as other:
            other.wait_until_connected()
            HubPage(board).key(2)


def found(port: int, logdir: str, *, debugs: bool = True) -> FoundCollector:
    return FoundCollector(port, "", 1, port, logdir, debugs=debugs)


@pytest.mark.parametrize(
    ("living", "now", "best"),
    [
        ([], None, None),
        ([found(3, "/other"), found(2, "/old")], None, 3),
        ([found(3, "/other"), found(2, "/logs")], None, 2),
        ([found(3, "/"), found(2, "/logs")], None, 3),
        ([found(3, "/logs"), found(2, "/logs")], 2, 2),
        ([found(3, "/logs"), found(2, "/other")], 2, 3),
        ([found(3, "/logs", debugs=False), found(2, "/other")], None, 2),
        ([found(3, "/other")], 2, 3),
        ([found(3, "/log")], None, 3),
    ],
)
def test_the_tensorboard_that_shows_the_run_is_the_best(
    living: list[FoundCollector], now: int | None, best: int | None
) -> None:
    """Then the newest; whoever has one that is as good stays with it."""
    before = next((each for each in [*living, found(2, "/gone")] if each.port == now), None)
    chosen = best_of(living, Path("/logs/a/run"), now=before)
    assert best == (chosen and chosen.port)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (":6007", "127.0.0.1:6007", True),
        ("localhost:6007", "[::1]:6007", True),
        ("Box:6007", "box:6007", True),
        (":6007", ":6008", False),
        ("box:6007", ":6007", False),
        ("nonsense", "nonsense", True),
        ("nonsense", ":1", False),
    ],
)
def test_addresses_that_lead_to_one_place(one: str, other: str, same: bool) -> None:
    """As people write them."""
    assert same == is_same(one, other)
