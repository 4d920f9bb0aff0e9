"""What the hub gets to know of a logdir: runs that come, grow, go and come back, while somebody asks."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tb_netdebug.viewer.plugin.live import Hub
from tb_netdebug.viewer.plugin.reading import LogdirReader
from tb_netdebug.viewer.plugin.rows import failed_row, read_row, unread_row

PATIENCE_SECS = 60.0


class Watched:
    """A logdir that is read, and what its hub knows."""

    def __init__(self, logdir: Path) -> None:
        self.hub = Hub()
        self.logdir = LogDir([("", str(logdir))])
        self.reading = LogdirReader(self.logdir, self.hub)

    def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Waits for news until the rows by name are as wanted."""
        seen = 0
        while True:
            version, rows = self.hub.rows()
            found = {str(row["name"]): row for row in rows}
            if condition(found):
                return found
            news = self.hub.wait(max(seen, version), timeout=PATIENCE_SECS)
            assert news, f"nothing more happened after {found}"
            seen = version

    def close(self) -> None:
        self.hub.close()
        self.reading.close()
        self.logdir.close()


@pytest.fixture
def watched(logdir: Path) -> Iterator[Watched]:
    watched = Watched(logdir)
    yield watched
    watched.close()


@pytest.fixture
def write(logdir: Path) -> Iterator[Callable[..., EventWriter]]:
    """Writes steps into a run, which stays open for more."""
    writers: dict[str, EventWriter] = {}

    def steps(name: str, *numbers: int) -> EventWriter:
        if name not in writers:
            writers[name] = EventWriter(logdir / name, flush_secs=0.01)
        for number in numbers:
            writers[name].put(StepRecord(number, 1.7e9 + number, {"loss": float(number)}))
        assert writers[name].flush()
        return writers[name]

    yield steps
    for writer in writers.values():
        writer.close()


def last_step(name: str, number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda rows: name in rows and rows[name]["last_step"] == number


def test_runs_that_are_there_are_listed_and_then_read(
    watched: Watched, write: Callable[..., EventWriter]
) -> None:
    """The list does not wait for the reading."""
    write("a", 0, 1)
    write("b", 0)
    watched.reading.attend()
    assert watched.reading.wait_for_list(timeout=PATIENCE_SECS)
    assert {"a", "b"} == {row["name"] for row in watched.hub.rows()[1]}
    rows = watched.until(lambda rows: 2 == sum(row["version"] is not None for row in rows.values()))
    assert (2, 1, 1.0, "live") == tuple(rows["a"][name] for name in ("steps", "last_step", "loss", "state"))


def test_steps_and_runs_are_noticed(watched: Watched, write: Callable[..., EventWriter]) -> None:
    """What grows, and what is new."""
    write("a", 0)
    watched.reading.attend()
    watched.until(last_step("a", 0))
    for number in range(1, 6):
        write("a", number)
        watched.until(last_step("a", number))
    write("deep/er/b", 7)
    assert {"a", "deep/er/b"} == set(watched.until(last_step("deep/er/b", 7)))


def test_what_is_written_while_a_run_is_read_first_is_not_missed(
    watched: Watched, write: Callable[..., EventWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The news of it comes before anybody would look again."""
    write("a", 0)
    details = FollowedRun.details

    def slow(run: FollowedRun) -> dict[str, Any]:
        found = details(run)
        if found["last_step"] == 0:
            write("a", 1)
            watched.reading._take_changes({"a"}, False)
        return found

    monkeypatch.setattr(FollowedRun, "details", slow)
    watched.reading.attend()
    watched.until(last_step("a", 1))


def test_a_run_that_goes_is_gone_and_may_come_back(
    watched: Watched, write: Callable[..., EventWriter], logdir: Path
) -> None:
    """A folder that is deleted and made anew is a new run."""
    write("a", 3)
    write("b", 0).close()
    watched.reading.attend()
    watched.until(last_step("b", 0))
    shutil.move(logdir / "b", logdir.parent / "b")
    assert {"a"} == set(watched.until(lambda rows: "b" not in rows))
    with pytest.raises(KeyError):
        watched.reading.read("b")
    shutil.move(logdir.parent / "b", logdir / "b")
    watched.until(last_step("b", 0))


def test_a_logdir_that_is_made_later_is_found(tmp_path: Path) -> None:
    """TensorBoard is often started before the training."""
    watched = Watched(tmp_path / "later")
    try:
        watched.reading.attend()
        assert watched.reading.wait_for_list(timeout=PATIENCE_SECS)
        assert 1 == len(watched.logdir.complaints)
        writer = EventWriter(tmp_path / "later/run", flush_secs=0.01)
        writer.put(StepRecord(5, 1.7e9, {"loss": 1.0}))
        watched.until(last_step("run", 5))
        writer.put(StepRecord(6, 1.7e9, {"loss": 1.0}))
        watched.until(last_step("run", 6))
        writer.close()
    finally:
        watched.close()


def test_a_request_reads_what_nobody_has_read(watched: Watched, write: Callable[..., EventWriter]) -> None:
    """In its own thread, without waiting for the turn of the run."""
    write("a", 0)
    watched.logdir.refresh()
    assert 1 == watched.reading.read("a").details()["steps"]


def test_a_run_that_cannot_be_read_has_a_complaint(
    watched: Watched, write: Callable[..., EventWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are read, and nothing stops."""
    write("bad", 0)
    write("good", 0)
    refresh = FollowedRun.refresh

    def sometimes(run: FollowedRun) -> bool:
        if run.name == "bad":
            raise RuntimeError("a record of a kind that nobody has thought of")
        return refresh(run)

    monkeypatch.setattr(FollowedRun, "refresh", sometimes)
    watched.reading.attend()
    rows = watched.until(lambda rows: 2 == sum(row["version"] is not None for row in rows.values()))
    assert "nobody has thought of" in rows["bad"]["complaint"]
    assert None is rows["good"]["complaint"]
    write("good", 1)
    watched.until(last_step("good", 1))


def test_a_mistake_does_not_end_the_following(
    watched: Watched, write: Callable[..., EventWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that stands still for ever would be worse than one that is late."""
    monkeypatch.setattr("tb_netdebug.viewer.plugin.reading.AGAIN_SECS", 0.01)
    refresh, failures = LogDir.refresh, iter([True, True])

    def failing(logdir: LogDir, *roots: Any) -> bool:
        if next(failures, False):
            raise RuntimeError("nobody has thought of this")
        return refresh(logdir, *roots)

    monkeypatch.setattr(LogDir, "refresh", failing)
    write("a", 0)
    watched.reading.attend()
    watched.until(last_step("a", 0))


def test_nothing_runs_while_nobody_is_interested(
    watched: Watched, write: Callable[..., EventWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the last question all of it rests, and the next one finds what was written meanwhile."""
    followers = "netdebug-follower"
    write("a", 0)
    watched.reading.attend()
    watched.until(last_step("a", 0))
    write("a", 1)
    watched.until(last_step("a", 1))  # which the follower has noticed
    [follower] = [thread for thread in threading.enumerate() if thread.name == followers]
    watched.hub.heard = -1e9
    monkeypatch.setattr("tb_netdebug.viewer.plugin.reading.REST_AFTER_SECS", 0.0)
    follower.join(PATIENCE_SECS)
    assert [] == [thread for thread in threading.enumerate() if thread.name == followers]
    write("a", 2, 3)
    write("b", 9)
    monkeypatch.undo()
    watched.reading.attend()
    watched.until(last_step("a", 3))
    watched.until(last_step("b", 9))


def test_after_the_end_nothing_starts(watched: Watched) -> None:
    """A late request must not bring threads to life."""
    watched.close()
    watched.reading.attend()
    assert watched.reading.wait_for_list(timeout=PATIENCE_SECS)
    assert [] == [thread for thread in threading.enumerate() if thread.name.startswith("netdebug-")]


def test_rows_have_the_same_fields_whatever_is_known(logdir: Path, write: Callable[..., EventWriter]) -> None:
    """Unread, read or unreadable: the page finds every field in every row."""
    write("a", 0, 1)
    runs = LogDir([("", str(logdir))])
    runs.refresh()
    unread = unread_row(runs.runs["a"])
    run = runs.open("a")
    run.refresh()
    read, failed = read_row(run.details()), failed_row(unread, "No.")
    assert unread.keys() == read.keys() == failed.keys()
    assert (None, 1, 0) == (unread["version"], read["version"], failed["version"])
    assert (None, 1, "No.") == (unread["ranks"], read["ranks"], failed["complaint"])
