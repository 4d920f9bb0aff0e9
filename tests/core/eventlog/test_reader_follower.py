"""News of a logdir: soon where the system tells, by looking elsewhere."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import psutil
import pytest

from tb_netdebug.core.eventlog.reader import follower
from tb_netdebug.core.eventlog.reader.follower import Follower, most_watches, pace_of
from tb_netdebug.core.eventlog.reader.inotify import Inotify
from tb_netdebug.core.eventlog.reader.logdir import LogDir, LogdirRoot
from tb_netdebug.core.eventlog.reader.mounts import is_shared
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tests.support.event_files import blocks, write_blocks

PATIENCE_SECS = 30.0


class News:
    """What a follower has told; `wait_for` waits until all of it together is enough."""

    def __init__(self) -> None:
        self.names: list[set[str]] = []
        self.listings = 0
        self._changed = threading.Condition()

    def __call__(self, names: set[str], listing_changed: bool) -> None:
        with self._changed:
            self.names.append(names)
            self.listings += listing_changed
            self._changed.notify_all()

    def wait_for(self, enough: Callable[[News], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: enough(self), PATIENCE_SECS), (self.names, self.listings)

    def wait_for_run(self, name: str) -> None:
        """Until it is told of; then that is forgotten."""
        self.wait_for(lambda news: any(name in names for names in news.names))
        with self._changed:
            self.names.clear()


@pytest.fixture
def following() -> Iterator[Callable[..., tuple[LogDir, News]]]:
    """Starts followers, and closes them in the end."""
    started: list[Follower] = []

    def start(*roots: tuple[str, object]) -> tuple[LogDir, News]:
        known, news = LogDir([(prefix, str(root)) for prefix, root in roots]), News()
        started.append(Follower(known, news))
        started[-1].start()
        return known, news

    yield start
    for one in started:
        one.close()


Start = Callable[..., tuple[LogDir, News]]


def plain(steps: range) -> list[StepRecord]:
    return [StepRecord(step, 100.0 + step, {"loss": float(step)}) for step in steps]


def append(path: Path, steps: range) -> None:
    with path.open("ab") as file:
        file.write(blocks(plain(steps)))


def test_what_is_there_is_told_first(logdir: Path, following: Start) -> None:
    """All runs at once, as a changed list."""
    for name in ("a", "b/c"):
        write_blocks(logdir / name, plain(range(2)))
    known, news = following(("", logdir))
    news.wait_for(lambda news: news.listings == 1)
    assert [{"a", "b/c"}] == news.names
    assert ["a", "b/c"] == list(known.runs)


def test_a_writer_at_work(logdir: Path, following: Start) -> None:
    """Its run is told with everything that is written, from the folder it makes to its end."""
    known, news = following(("", logdir))
    writer = EventWriter(logdir / "new" / "run", flush_secs=0.01)
    writer.put(plain(range(1))[0])
    assert writer.flush()
    news.wait_for_run("new/run")
    run = known.open("new/run")
    run.refresh()
    assert 1 == run.details()["steps"]
    for step in range(1, 4):
        writer.put(plain(range(step, step + 1))[0])
        assert writer.flush()
        news.wait_for_run("new/run")
        run.refresh()
        assert step == run.details()["last_step"]
    writer.close()


def test_only_the_runs_that_were_written_to_are_told(logdir: Path, following: Start) -> None:
    """Others are left alone, and so are files that are no event files."""
    paths = {name: write_blocks(logdir / name, plain(range(2))) for name in ("a", "b")}
    _, news = following(("", logdir))
    news.wait_for_run("a")
    (logdir / "b" / "checkpoint.pt").write_bytes(b"weights")
    append(paths["a"], range(2, 4))
    news.wait_for(lambda news: bool(news.names))
    assert {"a"} == set().union(*news.names)


def test_other_ranks_are_news_of_their_run(logdir: Path, following: Start) -> None:
    """They write into a side folder."""
    write_blocks(logdir / "a", plain(range(2)))
    path = write_blocks(logdir / "a", plain(range(2)), rank=1)
    _, news = following(("", logdir))
    news.wait_for_run("a")
    append(path, range(2, 4))
    news.wait_for_run("a")


def test_runs_that_come_and_go_are_told(logdir: Path, following: Start) -> None:
    """Also in folders that are made, moved and removed."""
    known, news = following(("", logdir))
    path = write_blocks(logdir / "deep" / "er" / "a", plain(range(2)))
    news.wait_for(lambda _: "deep/er/a" in known.runs)
    (logdir / "deep").rename(logdir / "moved")
    news.wait_for(lambda _: list(known.runs) == ["moved/er/a"])
    (logdir / "moved" / "er" / "a" / path.name).unlink()
    news.wait_for(lambda _: not known.runs)


@pytest.mark.parametrize("way", ["none", "few"])
def test_without_notices_one_looks(
    logdir: Path, following: Start, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Where the system has none, or not enough of them, changes are found all the same."""

    def refuse(self: Inotify) -> None:
        raise OSError("none")

    if way == "none":
        monkeypatch.setattr(Inotify, "__init__", refuse)
    else:
        monkeypatch.setattr(follower, "most_watches", lambda: 1)
    path = write_blocks(logdir / "a", plain(range(2)))
    known, news = following(("", logdir))
    news.wait_for_run("a")
    append(path, range(2, 4))
    news.wait_for_run("a")
    write_blocks(logdir / "b", plain(range(2)))
    news.wait_for_run("b")
    assert ["a", "b"] == list(known.runs)


def test_an_object_store_is_looked_at(following: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own time, by a thread of its own."""
    monkeypatch.setattr(follower, "STORE_SECS", 0.05)
    filesystem = fsspec.filesystem("memory")
    bucket = f"/netdebug-{uuid.uuid4().hex}"
    key = f"{bucket}/run/events.out.tfevents.1700000000.host.1.0.netdebug"
    filesystem.pipe(key, blocks(plain(range(4))))
    known, news = following(("", f"memory:/{bucket}"))
    news.wait_for_run("run")
    run = known.open("run")
    run.refresh()
    filesystem.pipe(key, blocks(plain(range(6))))
    news.wait_for_run("run")
    assert run.refresh()
    assert 5 == run.details()["last_step"]
    filesystem.rm(bucket, recursive=True)


def test_each_root_at_its_own_pace(logdir: Path) -> None:
    """A disk of this machine by notice, one that others write to and a store by looking."""
    assert follower.LOCAL_SECS == pace_of(LogdirRoot("", str(logdir)))
    assert follower.STORE_SECS == pace_of(LogdirRoot("", "memory://a"))
    assert follower.LOCAL_SECS == pace_of(LogdirRoot("", f"file://{logdir}"))


def test_one_that_fails_does_not_end_the_following(logdir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The failure is logged, and the next change is told."""
    path = write_blocks(logdir / "a", plain(range(2)))
    news = News()

    def fail_first(names: set[str], listing_changed: bool) -> None:
        news(names, listing_changed)
        if listing_changed:
            raise ValueError("not ready")

    following = Follower(LogDir([("", str(logdir))]), fail_first)
    following.start()
    news.wait_for_run("a")
    append(path, range(2, 4))
    news.wait_for_run("a")
    following.close()
    assert "could not read the changes" in caplog.text


def test_closing_leaves_nothing_open(logdir: Path) -> None:
    """No thread and no descriptor, also when it is closed at once."""
    before = psutil.Process().num_fds()
    for _ in range(3):
        following = Follower(LogDir([("", str(logdir))]), News())
        following.start()
        following.close()
        following.close()
    assert before == psutil.Process().num_fds()


def test_a_root_that_comes_later(logdir: Path, following: Start) -> None:
    """A folder that is not there yet is looked for."""
    _, news = following(("", logdir / "later"))
    write_blocks(logdir / "later" / "a", plain(range(2)))
    news.wait_for_run("a")


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local\\040disk ext4 rw 0 0
sshfs /mnt/ssh fuse.sshfs rw 0 0
share /mnt/share cifs rw 0 0
/dev/sdc1 /mnt/share xfs rw 0 0
broken
"""


@pytest.mark.parametrize(
    ("path", "shared"),
    [
        ("/logs", False),
        ("/home/me/logs", True),
        ("/homes", False),
        ("/home/local disk/logs", False),
        ("/mnt/ssh", True),
        ("/mnt/share/logs", False),
    ],
)
def test_disks_that_others_write_to(tmp_path: Path, path: str, shared: bool) -> None:
    """The type of the file system that is mounted last and deepest decides."""
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS, encoding="utf-8")
    assert shared == is_shared(path, mounts=mounts)


def test_where_the_system_does_not_tell_its_mounts(tmp_path: Path) -> None:
    """A disk is taken for its own."""
    assert not is_shared("/home", mounts=tmp_path / "none")


def test_watches_leave_room_for_others() -> None:
    """No more than half of what a user is allowed."""
    assert 0 < most_watches() <= follower.MOST_WATCHES
