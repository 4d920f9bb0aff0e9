"""The runs of a logdir: where they are, what they are called, and what is none."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tb_netdebug.core.eventlog.reader import places
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.eventlog.reader.places import natural, started_at
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.event_files import blocks, framed, write_blocks
from tests.support.recorded import record


def plain(steps: range) -> list[StepRecord]:
    return [StepRecord(step, 100.0 + step, {"loss": float(step)}) for step in steps]


def looked(*roots: tuple[str, object]) -> LogDir:
    known = LogDir([(prefix, str(root)) for prefix, root in roots])
    known.refresh()
    return known


def test_runs_in_the_order_of_their_numbers(logdir: Path) -> None:
    """Every folder with event files is a run by its place; run2 stands before run10."""
    for name in ("run10", "run2", "a/b/c", "a", "B"):
        write_blocks(logdir / name, plain(range(2)))
    write_blocks(logdir, plain(range(3)))
    known = looked(("", logdir))
    assert [".", "B", "a", "a/b/c", "run2", "run10"] == list(known.runs)
    place = known.runs["a/b/c"]
    assert ("netdebug", 1, str(logdir / "a/b/c")) == (place.kind, place.files, place.path)
    assert place.size_bytes == sum(path.stat().st_size for path in (logdir / "a/b/c").iterdir())
    assert 1_700_000_000 == place.started
    assert [] == known.complaints


def test_names_that_are_half_numbers() -> None:
    """Any name has its place in the order."""
    names = ["x10y", "x9y", "x", "10", "9", "²", "x" + "9" * 5000, "x09y"]
    assert ["9", "10", "x", "x9y", "x09y"] == [
        name for name in sorted(names, key=natural) if name in ("9", "10", "x", "x9y", "x09y")
    ]


def test_several_roots_with_names(logdir: Path) -> None:
    """As --logdir_spec has them; of two runs of the same name the first one counts."""
    write_blocks(logdir / "one", plain(range(2)))
    write_blocks(logdir / "two" / "x", plain(range(3)))
    write_blocks(logdir / "three" / "x", plain(range(4)))
    known = looked(("a", logdir / "one"), ("b", logdir / "two"), ("b", logdir / "three"))
    assert ["a", "b/x"] == list(known.runs)
    assert str(logdir / "two/x") == known.runs["b/x"].path


def test_runs_that_come_and_go(logdir: Path) -> None:
    """A look tells whether the list is another one."""
    known = looked(("", logdir))
    assert (False, {}) == (known.refresh(), dict(known.runs))
    path = write_blocks(logdir / "a", plain(range(2)))
    assert (True, ["a"], False) == (known.refresh(), list(known.runs), known.refresh())
    run = known.open("a")
    assert run is known.open("a")
    path.unlink()
    assert (True, []) == (known.refresh(), list(known.runs))
    write_blocks(logdir / "a", plain(range(2)))
    assert known.refresh()
    assert run is not known.open("a")


def test_an_unknown_run(logdir: Path) -> None:
    """KeyError, as of any mapping."""
    with pytest.raises(KeyError):
        looked(("", logdir)).open("none")


def test_roots_that_cannot_be_read(logdir: Path) -> None:
    """They are complaints; the others are read, and a folder that comes later is found."""
    write_blocks(logdir / "a", plain(range(2)))
    known = looked(("x", logdir / "missing"), ("y", "nosuch://bucket/logs"), ("", logdir))
    assert ["a"] == list(known.runs)
    assert [f"{logdir}/missing cannot be read: No such file or directory."] == known.complaints[:1]
    assert known.complaints[1].startswith(
        "nosuch://bucket/logs cannot be read: no fsspec driver is installed for it"
    )
    write_blocks(logdir / "missing", plain(range(2)))
    assert known.refresh()
    assert (1, ["a", "missing", "x"]) == (len(known.complaints), list(known.runs))


def test_links_are_not_followed(logdir: Path, tmp_path: Path) -> None:
    """Whoever may write to a logdir must not make us read something else."""
    elsewhere = write_blocks(tmp_path / "elsewhere", plain(range(5)))
    write_blocks(logdir / "a", plain(range(2)))
    (logdir / "link").symlink_to(tmp_path / "elsewhere")
    (logdir / "a" / "events.out.tfevents.9.netdebug").symlink_to(elsewhere)
    os.mkfifo(logdir / "a" / "events.out.tfevents.8.netdebug")
    known = looked(("", logdir))
    assert (["a"], 1) == (list(known.runs), known.runs["a"].files)
    run = known.open("a")
    run.refresh()
    assert 2 == run.details()["steps"]


def test_a_logdir_behind_a_link(logdir: Path, tmp_path: Path) -> None:
    """The logdir itself was named by the user."""
    write_blocks(logdir / "a", plain(range(2)))
    (tmp_path / "named").symlink_to(logdir)
    assert ["a"] == list(looked(("", tmp_path / "named")).runs)


def test_side_folders_belong_to_their_runs(logdir: Path) -> None:
    """A run of which rank 0 wrote nothing yet is a run; what others keep beside it is none."""
    write_blocks(logdir / "a", plain(range(2)), rank=1)
    (logdir / "a/plugins/profile").mkdir()
    (logdir / "a/plugins/netdebug/events.out.tfevents.1.host").write_bytes(b"")
    known = looked(("", logdir))
    assert (["a"], 1) == (list(known.runs), known.runs["a"].files)


def test_names_that_are_no_text(logdir: Path) -> None:
    """A folder's name may be any bytes; the run has one that can be sent."""
    folder = os.fsencode(logdir) + b"/bad\xff"
    os.mkdir(folder)  # noqa: PTH102
    Path(os.fsdecode(folder), "events.out.tfevents.1.netdebug").write_bytes(blocks(plain(range(3))))
    [name] = looked(("", logdir)).runs
    assert "bad\ufffd" == name.replace("\ufffd\ufffd\ufffd", "\ufffd")
    known = looked(("", logdir))
    run = known.open(name)
    run.refresh()
    assert 3 == run.details()["steps"]


def test_ours_win_over_copies(logdir: Path) -> None:
    """Where NetDebug recorded, files of others in the folder are passed over, also when they came first."""
    foreign = logdir / "events.out.tfevents.1600000000.host"
    foreign.write_bytes(b"")
    known = looked(("", logdir))
    run = known.open(".")
    run.refresh()
    assert ("summary", "summary") == (known.runs["."].kind, run.details()["kind"])
    write_blocks(logdir, plain(range(4)))
    assert known.refresh()
    assert run is known.open(".")
    assert run.refresh()
    assert ("netdebug", 4) == (known.runs["."].kind, run.details()["steps"])


def test_a_run_whose_writer_is_gone_has_ended(logdir: Path) -> None:
    """The file's name says which process of which machine wrote it, and that has it open until the end."""
    host, now = socket.gethostname(), time.time()
    paths = {}
    for name, file in (
        ("gone", f"{host}.4194303"),
        ("here", f"{host}.{os.getpid()}"),
        ("closed", f"{host}.{os.getpid()}"),
        ("elsewhere", "other.1"),
    ):
        paths[name] = path = logdir / name / f"events.out.tfevents.{now:.0f}.{file}.{name}.netdebug"
        path.parent.mkdir()
        path.write_bytes(blocks(plain(range(2))))
        os.utime(path, (now - 60, now - 60))
    fresh = write_blocks(logdir / "fresh", plain(range(2)))
    os.utime(fresh)
    known = looked(("", logdir))
    states = {}
    with paths["here"].open("ab"):
        for name in known.runs:
            run = known.open(name)
            run.refresh()
            states[name] = run.details()["state"]
    expected = {"gone": "ended", "here": "idle", "closed": "ended", "elsewhere": "idle", "fresh": "live"}
    assert expected == states


def test_when_a_run_began() -> None:
    """The file's name tells, of ours and of others."""
    assert 1700000000.0 == started_at("/a/events.out.tfevents.1700000000.host.7.0.netdebug")
    assert 1700000001.0 == started_at("/a/rank12.1700000001.host.7.0001.netdebug")
    assert started_at("/a/events.out.tfevents") is None


@pytest.fixture
def bucket() -> Iterator[str]:
    """The URL of an empty place in fsspec's store in memory."""
    filesystem = fsspec.filesystem("memory")
    name = f"netdebug-{uuid.uuid4().hex}"
    yield f"memory://{name}"
    if filesystem.exists(f"/{name}"):
        filesystem.rm(f"/{name}", recursive=True)


def test_an_object_store(bucket: str, logdir: Path) -> None:
    """Runs are listed and read as on a disk; an object that was written longer is read on."""
    filesystem = fsspec.filesystem("memory")
    key = bucket.removeprefix("memory:/") + "/exp/run1/events.out.tfevents.1700000000.host.1.0.netdebug"
    data = blocks([record(step) for step in range(30)])
    filesystem.pipe(key, data)
    filesystem.pipe(
        key.rpartition("/")[0] + "/plugins/netdebug/rank1.1.netdebug", blocks(plain(range(5)), rank=1)
    )
    filesystem.pipe(bucket.removeprefix("memory:/") + "/notes.txt", b"no events")
    known = looked(("", bucket + "/"))
    assert (["exp/run1"], []) == (list(known.runs), known.complaints)
    run = known.open("exp/run1")
    run.refresh()
    assert 30 == len(run.scalars(["loss"]).scalars["loss"].step)
    assert 8 == len(run.heat(Kind.WEIGHT, "std").first)
    assert [0, 1] == run.details()["ranks"]
    assert not run.refresh()
    filesystem.pipe(key, data + blocks(plain(range(30, 40))))
    known.refresh()
    assert run.refresh()
    assert 40 == run.details()["steps"]
    filesystem.pipe(key, blocks(plain(range(3))))
    known.refresh()
    assert run.refresh()
    assert 3 == run.details()["steps"]


def test_an_empty_object_store(bucket: str) -> None:
    """Nothing there is a complaint, as of a folder."""
    known = looked(("", bucket))
    assert {} == dict(known.runs)
    assert "cannot be read" in known.complaints[0]


def test_a_file_url(logdir: Path) -> None:
    """It is a path."""
    write_blocks(logdir / "a", plain(range(2)))
    assert ["a"] == list(looked(("", f"file://{logdir}")).runs)


def test_closing_lets_go_of_runs(logdir: Path) -> None:
    """What was opened can still be used, a new one is another object."""
    write_blocks(logdir, plain(range(2)))
    known = looked(("", logdir))
    run = known.open(".")
    run.refresh()
    known.close()
    assert run is not known.open(".")
    assert 2 == len(run.scalars(["loss"]).scalars["loss"].step)


def test_an_empty_file_of_ours(logdir: Path) -> None:
    """A run that has just begun."""
    path = write_blocks(logdir, [])
    known = looked(("", logdir))
    run = known.open(".")
    assert run.refresh()
    details = run.details()
    assert (None, 0, [], [], None) == tuple(
        details[k] for k in ("first_step", "steps", "ranks", "scalars", "loss")
    )
    assert run.graph() is None
    assert ({}, []) == (run.info(), run.heat(Kind.WEIGHT, "std").names)
    path.write_bytes(framed([]))
    assert not run.refresh()


def test_a_logdir_of_too_many_folders(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, and what was found so far is there."""
    monkeypatch.setattr(places, "MOST_FOLDERS", 3)
    for name in "abcde":
        write_blocks(logdir / name, plain(range(2)))
    known = looked(("", logdir))
    assert (["a", "b"], True) == (list(known.runs), "more folders" in known.complaints[0])
