"""More processes than a machine has files open, or a page reads; and what they agree on without waiting."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
import torch.distributed as distributed

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader import places
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tb_netdebug.recording import processes

RANKS = 12


@pytest.fixture
def logdir(tmp_path: Path) -> Path:
    """A run of several ranks, of which one is slow."""
    for rank in range(RANKS):
        writer = EventWriter(tmp_path / "run", rank=rank)
        for step in range(64):
            own = 0.05 if rank == 7 else 0.01
            writer.put(StepRecord(step, 1e9 + step, {"time/step": 0.1, "time/forward": own}))
            if step % 16 == 15:
                assert writer.flush()
        writer.close()
    return tmp_path


def test_more_files_than_may_be_open(logdir: Path) -> None:
    """No file stays open between two blocks, so ranks may be more than the files that a process may open."""
    expected = nd.check(logdir).as_dict()
    assert ["rank 7"] == expected["runs"][0]["findings"][0]["where"]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/dev/fd").iterdir())) + RANKS // 4, hard))
    try:
        assert expected == nd.check(logdir).as_dict()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize(("most", "expected"), [(8, 8), (RANKS, RANKS), (2, 2)])
def test_rank_0_is_always_read(
    logdir: Path, monkeypatch: pytest.MonkeyPatch, most: int, expected: int
) -> None:
    """However many others there are."""
    monkeypatch.setattr(places, "MOST_FILES_OF_A_RUN", most)
    known = LogDir([("", str(logdir))])
    known.refresh()
    run = known.open("run")
    run.refresh()
    ranks = run.details()["ranks"]
    assert (0, expected) == (ranks[0], len(ranks))


def test_the_first_answer_holds_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes on several hosts, started at different times, write into one run."""
    store = distributed.HashStore()
    monkeypatch.setattr(processes, "store", lambda: store)
    answers = []
    for start in ("12-00-00", "12-00-07"):
        monkeypatch.setattr(processes, "_questions", iter(range(2)))
        answers.append([processes.same_for_all(start), processes.same_for_all(f"{start}-again")])
    assert [["12-00-00", "12-00-00-again"]] * 2 == answers


def test_a_process_alone_asks_nobody() -> None:
    assert processes.this_one() is None
    assert processes.store() is None
    assert "mine" == processes.same_for_all("mine")
