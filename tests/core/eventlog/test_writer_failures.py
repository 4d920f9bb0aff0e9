"""Disks that are full, broken, gone or stuck: the training goes on, and what was lost is known exactly."""

from __future__ import annotations

import errno
import math
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from tb_netdebug.core.eventlog.reader.run import Run, read_run
from tests.support.faults import FaultyDisk
from tests.support.trainer import Trainer


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(tmp_path)


def until(condition: Callable[[], bool]) -> None:
    """Waits for what another process is about to do; fails after a minute."""
    for _ in range(6000):
        if condition():
            return
        Event().wait(0.01)
    pytest.fail("what was waited for did not happen")


def intact(run_dir: Path) -> Run:
    """The run, after a look that no file of it has any damage."""
    run = read_run(run_dir)
    assert [] == run.losses
    return run


def steps(run_dir: Path) -> list[int]:
    found: list[int] = intact(run_dir).main.steps.tolist()
    return found


@pytest.mark.parametrize("taken", [0, 1, 37, 4000])
def test_a_full_disk_and_space_again(logdir: Path, disk: FaultyDisk, taken: int) -> None:
    """The half-written record is completed, nothing is lost or there twice, and there was one warning."""
    with Trainer(logdir, env=disk.env) as trainer:
        trainer.put(50, samples=5)
        assert trainer.flush()
        disk.fail(errno.ENOSPC, after_bytes=taken)
        trainer.put(500, samples=20)
        assert not trainer.flush()
        trainer.put(50, samples=5)
        assert not trainer.flush()
        disk.order("ok")
        assert trainer.flush()
        trainer.put(50)
        trainer.close()
        counters, shown = trainer.counters(), trainer.warnings()
    assert list(range(650)) == steps(logdir)
    assert (1, 650, 0, 0) == tuple(
        counters[name] for name in ("files", "written_steps", "dropped_steps", "dropped_samples")
    )
    assert counters["failures"] >= 2
    assert 1 == len(shown)
    assert shown[0].startswith("trainer.py WriterWarning NetDebug cannot write to")
    assert "No space left on device" in shown[0]


def test_writing_goes_on_by_itself(logdir: Path, disk: FaultyDisk) -> None:
    """Nobody has to ask: the writer tries again until the disk has space."""
    disk.fail()
    with Trainer(logdir, env=disk.env) as trainer:
        trainer.put(10)
        until(lambda: disk.refusals >= 2)
        disk.order("ok")
        until(lambda: trainer.counters()["written_steps"] == 10)
    assert list(range(10)) == steps(logdir)


@pytest.mark.parametrize("taken", [0, 37])
def test_an_input_output_error_begins_a_new_file(logdir: Path, disk: FaultyDisk, taken: int) -> None:
    """What a broken file holds at its end is unknown, so the writer does not go on there."""
    with Trainer(logdir, env=disk.env) as trainer:
        trainer.do("graph", "the graph")
        trainer.put(100, samples=5)
        assert trainer.flush()
        disk.fail(errno.EIO, after_bytes=taken)
        trainer.put(100, samples=5)
        assert not trainer.flush()
        disk.order("ok")
        assert trainer.flush()
        trainer.close()
        assert 2 == trainer.counters()["files"] - (trainer.counters()["failures"] - 1)
    run = intact(logdir)
    assert list(range(200)) == run.main.steps.tolist()
    first, *_, last = run.files
    shutil.move(first, logdir.parent)
    assert (b"the graph", list(range(100, 200))) == (read_run(logdir).latest["graph"], steps(logdir))
    assert last.exists()


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EMFILE])
def test_a_folder_that_takes_no_files(logdir: Path, disk: FaultyDisk, code: int) -> None:
    """As soon as a file can be made, everything is written."""
    disk.order(f"open {code}")
    with Trainer(logdir, env=disk.env) as trainer:
        trainer.put(100)
        assert not trainer.flush()
        disk.order("ok")
        assert trainer.flush()
        assert 1 == len(trainer.warnings())
    assert list(range(100)) == steps(logdir)


def test_a_file_in_the_place_of_the_folder(logdir: Path) -> None:
    """The same with a mistake of the user, which can be put right while the training goes on."""
    run_dir = logdir / "run"
    run_dir.write_text("in the way")
    with Trainer(run_dir) as trainer:
        trainer.put(100)
        assert not trainer.flush()
        run_dir.unlink()
        assert trainer.flush()
        assert 1 == len(trainer.warnings())
    assert list(range(100)) == steps(run_dir)


def test_a_place_where_nothing_can_ever_be_written() -> None:
    """Training and closing work, everything is counted as dropped, and one warning is shown."""
    with Trainer(Path("/proc/netdebug")) as trainer:
        trainer.put(100, samples=2)
        assert not trainer.flush()
        trainer.close()
        counters = trainer.counters()
        assert (0, 100, 200) == tuple(
            counters[name] for name in ("written_steps", "dropped_steps", "dropped_samples")
        )
        assert 1 == len(trainer.warnings())
        assert 0 == trainer.leave("normally")


def test_a_folder_that_vanishes(logdir: Path) -> None:
    """Writing into a deleted file would succeed, into nothing; instead there is a new one."""
    run_dir = logdir / "run"
    with Trainer(run_dir) as trainer:
        trainer.do("graph", "the graph")
        trainer.put(100)
        assert trainer.flush()
        shutil.rmtree(run_dir)
        trainer.put(100)
        until(lambda: trainer.counters()["written_steps"] == 200)
        assert 1 == len(trainer.warnings())
        trainer.close()
    assert list(range(100, 200)) == steps(run_dir)
    assert b"the graph" == read_run(run_dir).latest["graph"]


def test_a_disk_that_takes_a_few_bytes_at_a_time(logdir: Path, disk: FaultyDisk) -> None:
    """A write that is cut short is no failure."""
    disk.order("short 7")
    with Trainer(logdir, env=disk.env) as trainer:
        trainer.put(100, samples=3)
        assert trainer.flush()
        assert (0, []) == (trainer.counters()["failures"], trainer.warnings())
    assert list(range(100)) == steps(logdir)


def test_a_stuck_disk_costs_the_newest_samples_and_then_steps(logdir: Path, disk: FaultyDisk) -> None:
    """The queue stays within its bytes; what is in the file and what was dropped add up exactly."""
    with Trainer(logdir, env=disk.env, queue_bytes=200_000) as trainer:
        trainer.put(1)
        assert trainer.flush()
        disk.order("stall")
        trainer.put(1)
        until(lambda: disk.refusals == 1)
        trainer.put(2000, samples=10)
        disk.order("ok")
        assert trainer.flush()
        trainer.put(1)
        trainer.close()
        counters, shown = trainer.counters(), trainer.warnings()
    columns = intact(logdir).main
    samples = sum(len(tensor.rows) for tensor in columns.tensors.values())
    assert [] == shown
    assert 2003 == len(columns.steps) + counters["dropped_steps"]
    assert 20_000 == samples + counters["dropped_samples"]
    assert columns.steps.tolist() == [*range(len(columns.steps) - 1), 2002]
    sampled = {step for tensor in columns.tensors.values() for step in columns.steps[tensor.rows].tolist()}
    assert 2 + len(sampled) == max(sampled) + 1
    assert 0 < len(sampled) < len(columns.steps)
    told = {
        name: columns.scalars[f"writer/{name}"].values[-1] for name in ("dropped_steps", "dropped_samples")
    }
    assert told == {name: counters[name] for name in told}
    assert counters["dropped_steps"] > 0


def test_the_counts_are_told_even_when_no_step_follows(logdir: Path, disk: FaultyDisk) -> None:
    """At the end they stand at the last step that was dropped, without its loss."""
    with Trainer(logdir, env=disk.env, queue_bytes=500) as trainer:
        disk.order("stall")
        trainer.put(1)
        until(lambda: disk.refusals == 1)
        trainer.put(100)
        disk.order("ok")
        trainer.close()
        dropped = trainer.counters()["dropped_steps"]
    columns = intact(logdir).main
    told = columns.scalars["writer/dropped_steps"]
    assert [(100, float(dropped))] == list(zip(columns.steps[told.rows], told.values, strict=True))
    assert (100, [0.0]) == (dropped, columns.scalars["loss"].values.tolist())


def test_memory_stays_bounded_while_the_disk_is_full(logdir: Path, disk: FaultyDisk) -> None:
    """Steps beyond the queue are dropped and counted, and those in it are written later."""
    disk.fail()
    with Trainer(logdir, env=disk.env, queue_bytes=100_000) as trainer:
        trainer.put(100, samples=1)
        assert not trainer.flush()
        trainer.put(5000, samples=1)
        disk.order("ok")
        assert trainer.flush()
        counters = trainer.counters()
    found = steps(logdir)
    assert (list(range(len(found))), 5100) == (found, len(found) + counters["dropped_steps"])
    assert 100 < len(found) < 5000


def test_a_disk_that_stays_full_to_the_end(logdir: Path, disk: FaultyDisk) -> None:
    """The program ends as always, its last records are counted as dropped, and the file has no torn end."""
    with Trainer(logdir, env=disk.env) as trainer:
        trainer.put(100)
        assert trainer.flush()
        disk.fail(after_bytes=100)
        trainer.put(50, samples=2)
        trainer.close()
        counters = trainer.counters()
        assert 1 == len(trainer.warnings())
        assert 0 == trainer.leave("normally")
    assert list(range(100)) == steps(logdir)
    assert (50, 100) == (counters["dropped_steps"], counters["dropped_samples"])


def test_strict_raises_where_the_user_is(logdir: Path, disk: FaultyDisk) -> None:
    """The next `put` after a failure raises, and there is no warning besides."""
    disk.fail()
    with Trainer(logdir, env=disk.env, strict=True) as trainer:
        assert "" == trainer.do("try_put")
        assert not trainer.flush()
        told = trainer.do("try_put")
        assert told.startswith("WriterError: Records cannot be written to")
        assert "No space left on device" in told
        assert [] == trainer.warnings()


def test_a_record_that_cannot_be_packed_costs_itself(logdir: Path) -> None:
    """The others of its batch are written; one warning says what was wrong."""
    with Trainer(logdir) as trainer:
        trainer.put(10)
        trainer.do("put_bad")
        trainer.put(10)
        assert trainer.flush()
        trainer.put(1)
        trainer.close()
        counters, shown = trainer.counters(), trainer.warnings()
    columns = intact(logdir).main
    assert [*range(10), *range(11, 22)] == columns.steps.tolist()
    assert (1, 1, 21) == (counters["dropped_steps"], counters["dropped_samples"], counters["written_steps"])
    assert 1.0 == columns.scalars["writer/dropped_steps"].values[-1]
    assert 1 == len(shown)
    assert "could not record something: ValueError" in shown[0]


@pytest.mark.parametrize("wall_time", [math.nan, math.inf, -math.inf])
def test_a_damaged_clock(logdir: Path, wall_time: float) -> None:
    """No event has a time that is no number."""
    with Trainer(logdir) as trainer:
        trainer.do("put_at", repr(wall_time))
        trainer.put(1)
        trainer.close()
    assert all(math.isfinite(time) for time in intact(logdir).main.wall_times.tolist())


def test_files_are_readable_by_others(logdir: Path) -> None:
    """TensorBoard may run as another user; the usual umask applies."""
    with Trainer(logdir) as trainer:
        trainer.put(1)
        trainer.close()
    (file,) = read_run(logdir).files
    assert stat.S_IRUSR | stat.S_IWUSR | stat.S_IRGRP | stat.S_IROTH == stat.S_IMODE(file.stat().st_mode)
