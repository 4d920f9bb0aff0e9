"""Strangers at the debugger's doors: a fixed part of what `make soak SOAK_ARGS="--knocks 20000"` sends."""

from __future__ import annotations

from pathlib import Path

from tests.support.doors import AgentDoor, PageDoors

REQUESTS, AGENTS, COLLECTORS = 400, 60, 12


def test_strangers_at_a_tensorboard(tmp_path: Path) -> None:
    """By its routes and at its collector: nobody but they themselves notices."""
    with PageDoors(tmp_path) as doors:
        answers = doors.ask(1, REQUESTS)
        doors.check()
        ends = doors.stream(1, AGENTS)
        doors.finish()
    assert (REQUESTS, AGENTS) == (answers.total(), ends.total())
    assert answers[200] > REQUESTS // 10
    assert answers[400] > REQUESTS // 10


def test_a_strange_collector(tmp_path: Path) -> None:
    """The agent comes again and again, and sends everything when the right one is there."""
    with AgentDoor(tmp_path, seed=1) as door:
        assert door.suffer(COLLECTORS)["messages"] > COLLECTORS
        door.finish()
