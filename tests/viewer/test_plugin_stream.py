"""The stream of a real TensorBoard: events arrive, resume, beat, are limited, and end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import StepRecord
from tb_netdebug.viewer.plugin.event_stream import MOST_STREAMS
from tests.support.tensorboard_process import EventStream, TensorBoard


@pytest.fixture
def writer(logdir: Path) -> Iterator[EventWriter]:
    """Writes a run of one step, and more when it is told to."""
    writer = EventWriter(logdir / "run", flush_secs=0.01)
    put(writer, 0)
    yield writer
    writer.close()


@pytest.fixture
def board(logdir: Path, writer: EventWriter) -> Iterator[TensorBoard]:
    with TensorBoard("--logdir", str(logdir)) as board:
        yield board


def put(writer: EventWriter, step: int) -> None:
    writer.put(StepRecord(step, 1.7e9 + step, {"loss": 1.0 / (step + 1)}))
    assert writer.flush()


def steps_until(stream: EventStream, last: int) -> list[int]:
    """The last step of each event of the run, up to the one that is waited for."""
    found: list[int] = []
    while not found or found[-1] != last:
        event = stream.until("run")
        assert "run" == event.data["run"]
        found += [event.data["last_step"]] if event.data["last_step"] is not None else []
    return found


def test_steps_arrive_as_they_are_written(board: TensorBoard, writer: EventWriter) -> None:
    """The last one always does; those that came faster than ten a second may share an event."""
    with board.stream() as stream:
        assert 200 == stream.status
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert ("no-cache", "no") == (stream.headers["cache-control"], stream.headers["x-accel-buffering"])
        assert board.json("runs")["epoch"] == stream.next().data["epoch"]
        for last in (5, 6, 20):
            for step in range(last - 3, last + 1):
                put(writer, step)
            seen = steps_until(stream, last)
            assert sorted(seen) == seen


def test_a_row_becomes_complete(board: TensorBoard) -> None:
    """The list of runs comes before they were read, and the stream brings the rest."""
    listed = board.json("runs")
    with board.stream(f"live?last_event_id={listed['epoch']}-0") as stream:
        event = stream.until("run")
    assert ("run", 0, 1, 1.0) == tuple(event.data[name] for name in ("name", "last_step", "steps", "loss"))
    assert listed["runs"][0].keys() | {"run"} == event.data.keys()


def test_a_stream_goes_on_where_it_was_cut(board: TensorBoard, writer: EventWriter) -> None:
    """By its last id; what happened meanwhile comes as the newest state, and nothing comes twice."""
    with board.stream() as stream:
        put(writer, 1)
        steps_until(stream, 1)
        put(writer, 2)
        last = stream.until("run")
    for step in range(3, 9):
        put(writer, step)
    with board.stream() as other:  # by now the newest is known
        put(writer, 9)
        steps_until(other, 9)
    with board.stream(headers={"Last-Event-ID": last.id}) as stream:
        hello, event = stream.until("hello"), stream.until("run")
    assert last.id == hello.id
    assert (9, "run") == (event.data["last_step"], event.data["run"])
    with board.stream(headers={"Last-Event-ID": event.id}) as stream:
        assert event.id == stream.until("hello").id
        put(writer, 10)
        assert 10 == stream.until("run").data["last_step"]


def test_an_id_of_another_start_begins_anew(board: TensorBoard) -> None:
    """The epoch of the greeting tells the page to fetch everything again."""
    with board.stream(headers={"Last-Event-ID": "0123-7"}) as stream:
        hello = stream.next()
    assert hello.data["epoch"] not in ("0123", "")
    assert f"{hello.data['epoch']}-{hello.data['version']}" == hello.id


def test_a_new_run_is_told(board: TensorBoard, logdir: Path) -> None:
    """The list has changed, and then the run is read."""
    with board.stream() as stream:
        stream.until("hello")
        board.json("runs")
        other = EventWriter(logdir / "other")
        put(other, 3)
        stream.until("runs")
        while (event := stream.until("run")).data["run"] != "other":
            pass
        other.close()
    assert 3 == event.data["last_step"]


def test_a_quiet_stream_beats(board: TensorBoard) -> None:
    """A comment every few seconds, so that nobody on the way takes it for dead."""
    with board.stream() as stream:
        assert "still here" == stream.until(":").data


def test_streams_are_limited_and_seats_are_freed(board: TensorBoard) -> None:
    """One too many is told when to come again, TensorBoard itself goes on, and who hangs up makes room."""
    with ExitStack() as stack:
        streams = [stack.enter_context(board.stream()) for _ in range(MOST_STREAMS)]
        assert ["hello"] * MOST_STREAMS == [stream.next().name for stream in streams]
        refused = board.get("live")
        assert 503 == refused.status
        assert "5" == refused.headers["retry-after"]
        assert "24 pages" in refused.json()["error"]
        for path in ("/data/runs", "/data/plugins_listing", "runs"):
            assert 200 == board.get(path).status
    # Nobody tells when a seat is free again but the stream that gets it.
    for _ in range(MOST_STREAMS):
        while True:
            with board.stream() as stream:
                if stream.status == 200:
                    break


def test_streams_end_with_tensorboard(board: TensorBoard) -> None:
    """Properly, so that a browser knows at once that it has to connect anew."""
    with board.stream() as stream:
        stream.until("hello")
        board.process.terminate()
        stream.read()
    assert 0 == board.process.wait()


def test_who_does_not_read_holds_nobody_up(board: TensorBoard, writer: EventWriter) -> None:
    """A listener that never reads takes no memory and delays no other."""
    with board.stream(), board.stream() as reader:
        for step in range(1, 40):
            put(writer, step)
        assert 39 == steps_until(reader, 39)[-1]
