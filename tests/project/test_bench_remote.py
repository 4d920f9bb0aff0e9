"""What `make bench` says of trainings that are watched from elsewhere: all four ways record and arrive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from torch import nn

from tests.support.bench_folder import load_bench

load_bench()

from bench import remote  # noqa: E402
from bench.models import Kind  # noqa: E402
from bench.progress import Progress, Session  # noqa: E402
from bench.recorded import NotRecordedError  # noqa: E402

TINY = Kind("tiny", "tiny", lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), (5, 4), 3, 5)


def test_a_small_comparison(tmp_path: Path) -> None:
    """What was recorded and sent is read back; nothing of it stays in the environment."""
    before = dict(os.environ)
    session = Session(tmp_path, Progress(is_terminal=False), is_quick=True, rounds=2)
    running = remote.measured(session, TINY, 2)
    assert before == dict(os.environ)
    assert [2] * 4 == [len(runner.busy) for runner in running.values()]
    assert [remote.ALONE, remote.AGAIN, remote.REMOTE, remote.NOBODY] == [
        row.title for row in remote.table_of(running).rows
    ]
    cost, gone = remote.promises_of(running)
    assert (remote.MOST_PERCENT, True) == (cost.limit, gone.limit > 0)


def test_a_copy_that_is_not_the_same_is_noticed(tmp_path: Path) -> None:
    """A stream that loses something would be the cheapest."""
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, data in ((here, b"whole"), (there, b"who")):
        folder.mkdir()
        (folder / "events.out.tfevents.1.host.1.0000.netdebug").write_bytes(data)
    with pytest.raises(NotRecordedError, match="not the same"):
        remote.check_copy(here, there)
