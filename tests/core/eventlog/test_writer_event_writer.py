"""The writer as its callers see it."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader.frames import LogRecord, read_frames
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.eventlog.writer import EventWriter, WriterError, WriterWarning
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.step import StepRecord


def record(step: int) -> StepRecord:
    return StepRecord(step, 1000.0 + step, {"loss": float(step)})


def events(path: Path) -> list[pb.Event]:
    frames = list(read_frames(path))
    assert all(isinstance(frame, LogRecord) for frame in frames)
    return [pb.Event.FromString(frame.payload) for frame in frames if isinstance(frame, LogRecord)]


def writer_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "netdebug-writer"]


def test_making_a_writer_starts_and_touches_nothing(logdir: Path) -> None:
    """Thread and file come with the first record."""
    run_dir = logdir / "run"
    writer = EventWriter(run_dir)
    assert ([], False, None) == (writer_threads(), run_dir.exists(), writer.path)
    assert writer.flush()
    writer.put(record(0))
    assert ["netdebug-writer"] == writer_threads()
    writer.close()


def test_the_file_is_one_that_tensorboard_knows(logdir: Path) -> None:
    """A version first; later events have steps that never go back, and metadata where a tag begins."""
    writer = EventWriter(logdir)
    writer.run_info(b"run")
    for step in range(50):
        writer.put(record(step))
        if step % 20 == 0:
            assert writer.flush()
    path = writer.path
    writer.close()
    assert path is not None
    first, *others = events(path)
    assert "brain.Event:2" == first.file_version
    values = [(event.step, value) for event in others for value in event.summary.value]
    assert {"loss", "netdebug/run", "netdebug/steps", "netdebug/detail/1", "netdebug/detail/2"} >= {
        value.tag for _, value in values
    }
    for tag in {value.tag for _, value in values}:
        steps = [step for step, value in values if value.tag == tag]
        assert sorted(steps) == steps
    losses = [value for _, value in values if value.tag == "loss"]
    assert [True] + [False] * 49 == [value.HasField("metadata") for value in losses]
    assert all(value.metadata.plugin_data.content == b"1" for _, value in values if value.tag != "loss")


def test_a_writer_that_nobody_holds_still_writes(logdir: Path) -> None:
    """What a function put before it returned is not lost with its variable."""

    def train() -> None:
        EventWriter(logdir).put(record(7))

    train()
    gc.collect()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "netdebug-writer"]
    for _ in range(1000):
        if len(read_run(logdir).main.steps):
            break
        thread.join(0.01)
    assert [7] == read_run(logdir).main.steps.tolist()
    close_all()


def close_all() -> None:
    """What happens at the end of a program."""
    from tb_netdebug.core.eventlog.writer import exit_handlers

    exit_handlers._close_all()


def test_after_close_everything_is_silently_ignored(logdir: Path) -> None:
    """A training that goes on after its monitor was closed is not disturbed."""
    writer = EventWriter(logdir)
    writer.put(record(0))
    writer.close()
    size = sum(path.stat().st_size for path in logdir.iterdir())
    writer.put(record(1))
    writer.image("picture", [[0.0]], step=1)
    writer.graph(b"graph")
    writer.close()
    assert (False, []) == (writer.flush(), writer_threads())
    assert size == sum(path.stat().st_size for path in logdir.iterdir())


def test_putting_from_many_threads(logdir: Path) -> None:
    """Each record arrives once, and the account of bytes is even at the end."""
    writer = EventWriter(logdir, flush_secs=0.001)

    def put(start: int) -> None:
        for step in range(start, start + 500):
            writer.put(record(step))

    threads = [threading.Thread(target=put, args=(500 * number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.flush()
    assert 0 == writer._backlog.held_bytes
    writer.close()
    assert list(range(4000)) == sorted(read_run(logdir).main.steps.tolist())


def test_the_file_stays_where_it_was_asked_for(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative folder means the one at the time of asking."""
    monkeypatch.chdir(logdir)
    writer = EventWriter("run")
    (logdir / "elsewhere").mkdir()
    monkeypatch.chdir(logdir / "elsewhere")
    writer.put(record(0))
    writer.close()
    assert [0] == read_run(logdir / "run").main.steps.tolist()


def test_the_warning_names_the_users_line(logdir: Path) -> None:
    """Not a line of ours, and not one of the thread in which the failure happened."""
    (logdir / "file").touch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        writer = EventWriter(logdir / "file")
        line = writer._user_line.lineno
        writer.put(record(0))
        writer.close()
    (shown,) = caught
    assert (__file__, line, WriterWarning) == (shown.filename, shown.lineno, shown.category)
    assert "EventWriter" in Path(__file__).read_text().splitlines()[shown.lineno - 1]


def test_warnings_as_errors_do_not_stop_the_writer(logdir: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Under `python -W error` the message goes to standard error, and writing is tried again."""
    target = logdir / "file"
    target.touch()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer = EventWriter(target)
        writer.put(record(0))
        assert not writer.flush()
        target.unlink()
        assert writer.flush()
        writer.close()
    assert "NetDebug cannot write to" in capfd.readouterr().err
    assert [0] == read_run(target).main.steps.tolist()


def test_strict_raises_at_close_too(logdir: Path) -> None:
    """When no further step comes, this is the last chance to say it."""
    (logdir / "file").touch()
    writer = EventWriter(logdir / "file", strict=True)
    writer.put(record(0))
    with pytest.raises(WriterError, match="cannot be written"):
        writer.close()


def test_what_is_no_picture_is_refused_at_the_users_line(logdir: Path) -> None:
    """It is a mistake in the call, unlike a disk that fails."""
    writer = EventWriter(logdir)
    with pytest.raises(ValueError, match="An image m"):
        writer.image("attention", [1.0, 2.0], step=0)


def test_two_writers_of_one_run_have_a_file_each(logdir: Path) -> None:
    """Nobody ever writes into another one's file."""
    writers = [EventWriter(logdir), EventWriter(logdir)]
    for writer in writers:
        writer.put(record(0))
        writer.close()
    assert 2 == len(read_run(logdir).files)


def test_costs_are_told(logdir: Path) -> None:
    """The CPU time of the thread, for whoever keeps a budget."""
    writer = EventWriter(logdir)
    assert 0.0 == writer.cost_secs
    for step in range(1000):
        writer.put(record(step))
    assert writer.flush()
    assert 0.0 < writer.cost_secs < os.times().user + os.times().system
    writer.close()
