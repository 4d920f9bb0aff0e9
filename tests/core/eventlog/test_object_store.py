"""A run in an object store: written in parts, read as one, whatever the store does meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.logdir import FollowedRun, LogDir
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.eventlog.writer import EventWriter, run_log
from tb_netdebug.core.eventlog.writer.spool import NOTE, local_folder, shown, spool_of
from tb_netdebug.core.records.step import StepRecord
from tests.support import recorded, s3_server
from tests.support.loops import fit, our_warnings
from tests.support.s3_server import BUCKET, S3Server

URL = f"s3://{BUCKET}/deep/runs"


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    server = S3Server()
    with pytest.MonkeyPatch.context() as patch:
        s3_server.use(server, patch)
        server.start()
        yield server
    server.stop()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A spool of the test's own, and parts as soon as there is anything."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(run_log, "SHORTEST_PART_SECS", 0.0)
    monkeypatch.setattr(run_log, "PART_SHARE", 0.0)


@pytest.fixture
def server(running: S3Server, hasty: None, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """An empty store."""
    s3_server.use(running, monkeypatch)
    for path in running.files.find(BUCKET):
        running.files.rm(path)
    return running


@pytest.fixture
def mortal(hasty: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A store that may be killed."""
    server = S3Server()
    s3_server.use(server, monkeypatch)
    server.start()
    yield server
    server.stop()


def opened(url: str = URL) -> FollowedRun:
    logdir = LogDir([("", url)])
    logdir.refresh()
    assert [] == logdir.complaints
    (name,) = logdir.runs
    run = logdir.open(name)
    run.refresh()
    return run


def write(writer: EventWriter, records: Sequence[StepRecord], *, together: int = 10) -> None:
    for at, record in enumerate(records):
        writer.put(record)
        if at % together == together - 1:
            assert writer.flush()


def assert_same(run: FollowedRun, folder: Path, *, rank: int = 0) -> None:
    """Everything that is in the folder, and each of it once."""
    expected = recorded.Recorded.of(folder, rank=rank)
    last = max(expected.times)
    for points in (1000, 7):  # every step, and from the levels of detail
        found = run.scalars([*expected.scalars], points=points, rank=rank).scalars
        for name in expected.scalars:
            expected.check_scalar(name, found[name], first=0, last=last)
    for series in expected.tensors:
        whole = run.histogram(series, first=0, last=last, rank=rank)
        samples = expected.samples(series, first=0, last=last)
        assert whole is not None
        assert len(samples) == whole.merged


def test_a_run_of_many_parts_is_one_run(server: S3Server, tmp_path: Path) -> None:
    """Of two ranks: nothing lost, nothing doubled, no object written twice, nothing left on this machine."""
    records = [recorded.record(step) for step in range(300)]
    for rank in range(2):
        for folder in (local_folder(URL) / "run", tmp_path / "local/run"):
            writer = EventWriter(folder, rank=rank)
            write(writer, records)
            writer.close()
    parts = [path for path in server.objects() if not path.endswith(NOTE)]
    assert len(parts) >= 40
    run = opened()
    assert [0, 1] == run.details()["ranks"]
    for rank in range(2):
        assert_same(run, tmp_path / "local/run", rank=rank)
    assert [] == [*local_folder(URL).rglob("*.netdebug")]


def test_each_part_is_an_event_file_of_its_own(server: S3Server, tmp_path: Path) -> None:
    """Whoever gets one of them alone knows what the run is."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    with nd.watch(model, logdir=URL, run="run", every=1, memory=False) as monitor:
        for _ in range(3):
            fit(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=4, monitor=monitor)
            assert monitor.flush()
    parts = sorted(path for path in server.objects() if "/run/" in path)
    assert len(parts) >= 3
    steps: list[int] = []
    for number, part in enumerate(parts):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / part.rpartition("/")[2]).write_bytes(server.objects()[part])
        alone = read_run(folder)
        assert ([], True) == (alone.losses, {"run"} <= alone.latest.keys())
        steps += alone.main.steps.tolist() if alone.ranks else []
    assert [*range(12)] == steps
    assert [*range(12)] == opened().scalars(["loss"]).scalars["loss"].step.tolist()


def test_a_store_that_goes_away_and_comes_back(mortal: S3Server, tmp_path: Path) -> None:
    """The training goes on, the trouble is told once, and in the end nothing is missing."""
    records = [recorded.record(step) for step in range(120)]
    with our_warnings() as told:
        writer = EventWriter(local_folder(URL) / "run")
        write(writer, records[:40])
        mortal.kill()
        write(writer, records[40:80])
        waiting = len([*local_folder(URL).rglob("*.netdebug")])
        mortal.start()
        write(writer, records[80:])
        writer.close(timeout_secs=60.0)
    assert waiting > 0
    assert len(told) <= 1
    local = EventWriter(tmp_path / "local/run")
    write(local, records)
    local.close()
    assert_same(opened(), tmp_path / "local/run")


def test_what_the_store_did_not_take_goes_with_the_next_run(mortal: S3Server) -> None:
    """At the end there is a sentence; the records are kept, also those of a process that was killed."""
    mortal.kill()
    with our_warnings() as told:
        writer = EventWriter(local_folder(URL) / "first")
        write(writer, [recorded.record(step) for step in range(20)])
        writer.close(timeout_secs=1.0)
    assert any("the next run on this machine" in each for each in told), told
    program = (
        "import os; from tests.support import recorded\n"
        "from tb_netdebug.core.eventlog.writer import EventWriter, run_log\n"
        "from tb_netdebug.core.eventlog.writer.spool import local_folder\n"
        f"writer = EventWriter(local_folder({URL!r}) / 'killed')\n"
        "writer.put(recorded.record(0)); writer.flush(); os.kill(os.getpid(), 9)"
    )
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, check=False)
    mortal.start()
    writer = EventWriter(local_folder(URL) / "second")
    write(writer, [recorded.record(0)])
    writer.close(timeout_secs=60.0)
    logdir = LogDir([("", URL)])
    logdir.refresh()
    assert ["first", "killed", "second"] == list(logdir.runs)
    run = logdir.open("first")
    run.refresh()
    assert [*range(20)] == run.scalars(["loss"]).scalars["loss"].step.tolist()


@pytest.mark.parametrize(
    ("url", "next_step"),
    [
        ("s3://no-such-bucket-here/runs", "Create the bucket"),
        ("sink://somewhere/runs", "Install its driver"),
    ],
)
def test_what_cannot_work_is_said_once_with_the_next_step(server: S3Server, url: str, next_step: str) -> None:
    with our_warnings() as told:
        writer = EventWriter(local_folder(url) / "run")
        write(writer, [recorded.record(step) for step in range(20)])
        writer.close(timeout_secs=1.0)
    assert next_step in told[0]
    assert url in told[0]
    assert len(told) <= 2


def test_only_folders_of_stores_are_spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything else is written to as ever; sentences name the store, not the folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path.cwd() / "runs" == local_folder("runs")
    assert Path("/data/runs") == local_folder("file:///data/runs")
    assert spool_of(tmp_path / "runs/one") is None
    assert str(tmp_path) == shown(tmp_path)
    folder = local_folder("gs://bucket/a/")
    spool = spool_of(folder / "run")
    assert spool is not None
    assert ("gs://bucket/a", "gs://bucket/a/run/x") == (spool.url, spool.target(folder / "run/x"))
    assert "gs://bucket/a" == shown(folder)
    assert 0o700 == folder.stat().st_mode & 0o777


def test_a_system_without_numbers_of_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder in the temporary one needs no number there."""
    cache = tmp_path / "cache"
    cache.write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delattr(os, "getuid")
    folder = local_folder("gs://bucket/a")
    assert tmp_path / "netdebug/stores" == folder.parent
    assert "gs://bucket/a" == shown(folder)
