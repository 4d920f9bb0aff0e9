"""What agents have seen, from their files: every sample, the ending, and bounded whatever the files hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader.file_index import FileIndex
from tb_netdebug.core.eventlog.reader.logdir import FollowedRun, LogDir
from tb_netdebug.core.eventlog.reader.storage import storage_of
from tb_netdebug.core.eventlog.reader.witnesses import MOST_ROWS, Witnesses
from tb_netdebug.core.records.step import StepRecord
from tb_netdebug.core.records.witness import encode_witness
from tests.support.agents import KILLED, agent_file, ended, sample, told
from tests.support.event_files import damaged, write_blocks

START = 1.7e9
AGENT = "/run/plugins/netdebug/agent0.1700000000.far.7.0001.netdebug"


def followed(folder: Path) -> FollowedRun:
    known = LogDir([("", str(folder))])
    known.refresh()
    run = known.open(".")
    run.refresh()
    return run


def plain(steps: range) -> list[StepRecord]:
    return [StepRecord(step, START + step, {"loss": float(step)}) for step in steps]


def test_a_run_tells_how_it_ended(logdir: Path) -> None:
    """With what its processes took, and without taking the agent's file for one of the training."""
    write_blocks(logdir, plain(range(8)))
    samples = [sample(START + second, (1 << 30) + second) for second in range(5)]
    agent_file(logdir, [*samples, sample(START + 9, ending=ended(START + 9, signal=9, memory=True))])
    run = followed(logdir)
    details = run.details()
    assert ("ended", [0], 8, 0, None) == tuple(
        details[name] for name in ("state", "ranks", "steps", "gaps", "complaint")
    )
    assert details["ending"] == details["endings"][0] == {
        "rank": 0, "time": START + 9, "well": False, "exit_code": None, "signal": 9, "out_of_memory": True,
        "sentence": KILLED,
    }  # fmt: skip
    (last,) = details["processes"]
    assert (START + 4, (1 << 30) + 4, 3, 21) == tuple(
        last[name] for name in ("time", "tree_bytes", "processes", "threads")
    )
    course = run.processes()
    assert [START + second for second in range(5)] == course.time.tolist()
    assert [float((1 << 30) + second) for second in range(5)] == course.tree_bytes.tolist()
    assert [1.5] * 5 == course.cpu_share.tolist()
    assert 0 == len(run.processes(rank=1).time)


def test_what_an_agent_adds_is_followed(logdir: Path) -> None:
    """Record by record, also when one comes in two parts."""
    write_blocks(logdir, plain(range(2)))
    path = agent_file(logdir, [sample(START)])
    run = followed(logdir)
    news = told([sample(START + 1), sample(START + 2, ending=ended(START + 2, well=True, code=0))])
    with path.open("ab") as file:
        file.write(news[:50])
        file.flush()
        assert run.refresh()
        assert run.details()["ending"] is None
        file.write(news[50:])
    assert run.refresh()
    assert (True, 2) == (run.details()["ending"]["well"], len(run.processes().time))


def test_a_long_course_is_bounded_and_keeps_its_peak() -> None:
    """Rows are put together; the mean, the greatest and the end stay right."""
    known = Witnesses()
    count = 50 * MOST_ROWS
    for start in range(0, count, 100):
        samples = [sample(START + second, 1000 + (second == 777)) for second in range(start, start + 100)]
        known.take(AGENT, [encode_witness(each) for each in samples])
    course = known.course(0)
    assert MOST_ROWS // 2 <= len(course.time) <= MOST_ROWS
    assert (START, 1001.0) == (course.time[0], course.most_bytes.max())
    assert course.tree_bytes.max() < 1001
    assert (sorted(course.time.tolist()), START + count - 1) == (
        course.time.tolist(),
        known.newest()[0].newest.time,  # type: ignore[union-attr]
    )


def test_much_at_once_is_read_in_part_with_its_end() -> None:
    """A day of samples that is opened costs no more than a few minutes of it."""
    known = Witnesses()
    samples = [sample(START + second) for second in range(86_400)]
    known.take(AGENT, [encode_witness(each) for each in [*samples, sample(0, ending=ended(1.0, signal=6))]])
    assert (6, START) == (known.newest()[0].ending.signal, known.course(0).time[0])  # type: ignore[union-attr]
    assert len(known.course(0).time) <= MOST_ROWS


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_account_does_no_harm(logdir: Path, seed: int) -> None:
    """What cannot be read is a gap or left out; the recording is not touched by it."""
    write_blocks(logdir, plain(range(4)))
    samples = [sample(START + second) for second in range(20)]
    path = agent_file(logdir, [*samples, sample(0.0, ending=ended(START + 30, signal=9))])
    path.write_bytes(damaged(path.read_bytes(), random.Random(seed)))
    run = followed(logdir)
    details = run.details()
    assert 4 == details["steps"]
    assert len(run.processes().time) <= 20
    assert details["state"] in ("live", "idle", "ended")


def test_a_newer_agent_is_told_in_a_sentence(logdir: Path) -> None:
    """One that knows more than this reader."""
    write_blocks(logdir, plain(range(2)))
    message = bytearray(encode_witness(sample(START)))
    assert 1 == message[1]
    message[1] = 99
    known = Witnesses()
    assert "99" in known.take(AGENT, [bytes(message)])
    assert {} == known.newest()


def test_a_file_index_hands_out_every_sample(logdir: Path) -> None:
    """Of other payloads the newest counts, of these each."""
    path = agent_file(logdir, [sample(START + second) for second in range(7)])
    storage, root = storage_of(str(logdir))
    state = storage.files(f"{root}/plugins/netdebug")[path.name]
    news = [*FileIndex(storage, str(path)).grow(state)]
    assert [encode_witness(sample(START + second)) for second in range(7)] == [
        payload for each in news for payload in each.samples
    ]
