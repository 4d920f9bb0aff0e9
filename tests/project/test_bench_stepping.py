"""What `make bench` says of the debugger: all copies train, those that are to be are attached and watched."""

from __future__ import annotations

import os
from pathlib import Path

from torch import nn

from tests.support.bench_folder import load_bench

load_bench()

from bench import stepping  # noqa: E402
from bench.board import Board  # noqa: E402
from bench.elsewhere import meeting_place  # noqa: E402
from bench.models import Kind  # noqa: E402
from bench.progress import Progress, Session  # noqa: E402
from bench.side_by_side import run_rounds  # noqa: E402
from tb_netdebug.debugger.client.http_client import HttpClient  # noqa: E402
from tb_netdebug.debugger.client.hub_address import HubAddress  # noqa: E402

TINY = Kind("tiny", "tiny", lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), (5, 4), 3, 5)


def test_a_small_comparison(tmp_path: Path) -> None:
    """Watchpoints are set and looked at in a training that runs, and never met."""
    session = Session(tmp_path, Progress(is_terminal=False), is_quick=True, rounds=2)
    (tmp_path / "seen").mkdir()
    titles = [stepping.ALONE, stepping.ARMED, stepping.WATCHED]
    with (
        meeting_place(),
        Board(tmp_path / "seen").need_netdebug() as board,
        stepping.runners(tmp_path / "runs", TINY, board, titles) as made,
    ):
        run_rounds(list(made.values()), session, 2, title="a test")
        client = HttpClient(HubAddress.of(board.url), label="test", environ=os.environ)
        states = {each.session["run"][-1]: each.state for each in client.sessions()}
    assert {"tiny1": 0, "tiny2": stepping.WATCHPOINTS} == {
        run: len(state["watchpoints"]) for run, state in states.items()
    }
    assert {"tiny1": False, "tiny2": True} == {run: state["is_attached"] for run, state in states.items()}
    assert [0, 0] == [state["hits"] for state in states.values()]
    assert all(2 == len(runner.passed) for runner in made.values())
    assert titles == [row.title for row in stepping.table_of("a test", made, stepping.ALONE).rows]
