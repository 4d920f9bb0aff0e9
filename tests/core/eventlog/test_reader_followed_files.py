"""A run that grows, breaks, is replaced or goes away while it is followed."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from tb_netdebug.core.eventlog.reader.file_index import FileIndex
from tb_netdebug.core.eventlog.reader.logdir import FollowedRun, LogDir
from tb_netdebug.core.eventlog.reader.storage import Local
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.event_files import blocks, header_of, newer_block, write_blocks
from tests.support.recorded import Recorded, opened, record, write


def steps(run: FollowedRun) -> list[int]:
    view = run.scalars(["loss"], points=10_000)
    return [int(step) for step in view.scalars["loss"].step] if view.scalars else []


def plain(steps: range) -> list[StepRecord]:
    return [StepRecord(step, 100.0 + step, {"loss": float(step)}) for step in steps]


def test_only_what_was_added_is_read(logdir: Path) -> None:
    """Each look goes on where the last one stopped; one that finds nothing changes nothing."""
    path = write_blocks(logdir, plain(range(10)))
    run = opened(logdir)
    assert (list(range(10)), 1) == (steps(run), run.version)
    assert (False, 1) == (run.refresh(), run.version)
    with path.open("ab") as file:
        file.write(blocks(plain(range(10, 15))))
    assert (True, 2) == (run.refresh(), run.version)
    assert list(range(15)) == steps(run)
    assert (0, 15) == (run.details()["gaps"], run.details()["steps"])


def test_every_cut_of_a_growing_file(logdir: Path) -> None:
    """Wherever the end of the file is at the moment, what is whole is there, and nothing twice."""
    data = blocks(plain(range(12)))
    path = write_blocks(logdir, [])
    run = opened(logdir)
    for size in (*range(0, len(data), 7), len(data)):
        path.write_bytes(data[:size]) if size == 0 else path.open("ab").write(
            data[path.stat().st_size : size]
        )
        run.refresh()
        found = steps(run)
        assert list(range(len(found))) == found
    assert list(range(12)) == steps(run)
    assert 0 == run.details()["gaps"]


def rest(run: FollowedRun, path: Path) -> None:
    """As if nothing had been written to the file for a while."""
    then = path.stat().st_mtime - 60
    os.utime(path, (then, then))
    run.refresh()


def test_a_torn_end_is_told_and_may_still_come(logdir: Path) -> None:
    """What is missing at the end is a gap until it is there; while the file grows it is just on its way."""
    data = blocks(plain(range(8)))
    path = write_blocks(logdir, [])
    path.write_bytes(data[:-10])
    run = opened(logdir)
    assert ([0, 1, 2, 3], 0, []) == (steps(run), run.details()["gaps"], run.details()["gap_list"])
    rest(run, path)
    [gap] = run.details()["gap_list"]
    assert 1 == run.details()["gaps"]
    assert (path.name, len(data) - 10) == (gap["file"], gap["offset"] + gap["size"])
    assert "ends within a record" in gap["complaint"]
    with path.open("ab") as file:
        file.write(data[-10:])
    run.refresh()
    assert (list(range(8)), []) == (steps(run), run.details()["gap_list"])


def test_zeros_that_are_filled_in_later(logdir: Path) -> None:
    """A network disk may show the length of a file before its content."""
    first, second = blocks(plain(range(4))), blocks(plain(range(4, 8)))
    path = write_blocks(logdir, [])
    path.write_bytes(first + bytes(len(second)))
    run = opened(logdir)
    rest(run, path)
    assert ([0, 1, 2, 3], 1) == (steps(run), run.details()["gaps"])
    path.write_bytes(first + second)
    run.refresh()
    assert (list(range(8)), 0) == (steps(run), run.details()["gaps"])


@pytest.mark.parametrize("damage", ["flip", "zeros", "poison", "cut"])
def test_what_comes_after_damage_is_read(logdir: Path, damage: str) -> None:
    """Also when it is written later; the gap is told once and stays where it is."""
    data = bytearray(blocks(plain(range(60))))
    middle = len(data) // 2
    if damage == "flip":
        data[middle] ^= 4
    elif damage == "zeros":
        data[middle : middle + 300] = bytes(300)
    elif damage == "poison":
        data[middle:middle] = header_of(1 << 40)
    else:
        del data[middle : middle + 30]
    path = write_blocks(logdir, [])
    path.write_bytes(data)
    run = opened(logdir)
    before = steps(run)
    assert {0, 59} <= set(before)
    assert 40 <= len(before) < 60 or damage == "poison"
    with path.open("ab") as file:
        file.write(blocks(plain(range(60, 70))))
    run.refresh()
    assert before + list(range(60, 70)) == steps(run)
    details = run.details()
    assert (1, 1) == (details["gaps"], len(details["gap_list"]))
    assert (
        details["gap_list"][0]["offset"]
        <= middle
        <= sum(details["gap_list"][0][k] for k in ("offset", "size"))
    )


def test_coarse_levels_around_damage(logdir: Path) -> None:
    """Where a coarse block was lost, finer ones stand in for it."""
    writer = write(logdir, [record(step) for step in range(2000)])
    whole = Recorded.of(logdir)
    run = opened(logdir)
    file = run._content.files[0]
    coarse = [entry for entry in file.entries.view if entry["kind"] == 1]
    path = Path(file.path)
    data = bytearray(path.read_bytes())
    for entry in coarse[2:4]:
        data[int(entry["offset"]) + 5] ^= 1
    path.write_bytes(data)
    found = opened(logdir).scalars(["loss"], points=60)
    assert (1, 0) == (found.level, writer.counters.dropped_steps)
    covered = found.scalars["loss"].count.sum()
    assert covered >= 2000 - 2 * 50  # a block of steps may lie in the same record
    damaged = Recorded.of(logdir)
    missing = set(whole.scalars["loss"]) - set(damaged.scalars["loss"])
    assert covered >= 2000 - len(missing)


def test_a_file_that_is_replaced(logdir: Path) -> None:
    """By another one, longer or shorter: it is read from its beginning."""
    path = write_blocks(logdir, plain(range(10)))
    run = opened(logdir)
    for other in (plain(range(100, 140)), plain(range(3))):
        fresh = logdir / "fresh"
        fresh.write_bytes(blocks(other))
        fresh.replace(path)
        assert run.refresh()
        assert [one.step for one in other] == steps(run)


def test_a_file_that_is_written_anew_in_place(logdir: Path) -> None:
    """It is no longer what it was, also when it is longer than before."""
    path = write_blocks(logdir, plain(range(10)))
    run = opened(logdir)
    path.write_bytes(blocks(plain(range(50, 80))))
    assert run.refresh()
    assert list(range(50, 80)) == steps(run)


def test_a_file_that_is_cut(logdir: Path) -> None:
    """What is gone is no longer shown."""
    path = write_blocks(logdir, plain(range(10)), size=2)
    run = opened(logdir)
    os.truncate(path, path.stat().st_size // 2)
    run.refresh()
    assert 0 < len(steps(run)) < 10


def test_files_that_come_later(logdir: Path) -> None:
    """A resumed training and another rank, in the folder that is followed already."""
    write_blocks(logdir, plain(range(10)))
    run = opened(logdir)
    write_blocks(logdir, plain(range(8, 20)), number=1)
    write_blocks(logdir, plain(range(5)), rank=3)
    assert run.refresh()
    assert list(range(20)) == steps(run)
    assert [0, 3] == run.details()["ranks"]
    write_blocks(logdir, [StepRecord(4, 1.0, {"loss": -1.0}), *plain(range(5, 7))], number=-1)
    assert run.refresh()
    assert list(range(20)) == steps(run)


def test_a_run_that_goes_away(logdir: Path) -> None:
    """Its files are deleted: nothing is left of it, and nothing fails."""
    path = write_blocks(logdir / "a", plain(range(10)))
    known = LogDir([("", str(logdir))])
    known.refresh()
    run = known.open("a")
    run.refresh()
    path.unlink()
    assert run.refresh()
    assert ([], None) == (steps(run), run.details()["last_step"])
    assert known.refresh()
    assert {} == dict(known.runs)
    with pytest.raises(KeyError):
        known.open("a")


def test_a_newer_format_is_said_in_a_sentence(logdir: Path) -> None:
    """What this version knows of the run is shown all the same."""
    path = write_blocks(logdir, plain(range(5)))
    with path.open("ab") as file:
        file.write(newer_block(5) + blocks(plain(range(6, 9))))
    run = opened(logdir)
    assert [0, 1, 2, 3, 4, 6, 7, 8] == steps(run)
    assert "upgrade tb_netdebug" in run.details()["complaint"]


def test_a_file_that_may_not_be_read(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a complaint of the run, the others are shown, and it is tried again."""
    path = write_blocks(logdir, plain(range(5)))
    write_blocks(logdir, plain(range(5, 9)), number=1)
    real = Local.open

    def refuse(self: Local, name: str):
        if name == str(path):
            raise PermissionError(13, "Permission denied")
        return real(self, name)

    with monkeypatch.context() as patched:
        patched.setattr(Local, "open", refuse)
        run = opened(logdir)
        assert [5, 6, 7, 8] == steps(run)
        assert f"{path.name} cannot be read: Permission denied." == run.details()["complaint"]
    run.refresh()
    assert (list(range(9)), None) == (steps(run), run.details()["complaint"])


def test_details_are_plain_values(logdir: Path) -> None:
    """Everything in them can be sent as JSON, also what names the files hold."""
    names = ["\ud800", "</script>", "\u202e", "x" * 10_000, "", "a\x00b"]
    records = [StepRecord(0, 1.0, {name: float("nan") for name in names})]
    write_blocks(logdir, records)
    details = opened(logdir).details()
    text = json.dumps(details, ensure_ascii=False).encode("utf-8")
    assert sorted(["\ufffd" * 3, *names[1:]]) == sorted(json.loads(text)["scalars"])
    found = opened(logdir).scalars(details["scalars"])
    assert len(names) == len(found.scalars)


def test_following_a_writer_at_work(logdir: Path) -> None:
    """One thread follows, others look, while the training writes: every view is whole in itself."""
    writer = EventWriter(logdir, flush_secs=0.01)
    done, failures = threading.Event(), []
    writer.put(record(0))
    assert writer.flush()
    run = opened(logdir)

    def look() -> None:
        try:
            while not done.is_set():
                found = run.scalars(["loss"], points=5000).scalars["loss"].step
                assert list(range(len(found))) == found.tolist()
                heat = run.heat(Kind.WEIGHT, "std", columns=5000)
                assert list(range(0, 4 * len(heat.first), 4)) == heat.first.tolist()
                json.dumps(run.details())
        except Exception as error:
            failures.append(error)

    def follow() -> None:
        while not done.is_set():
            run.refresh()

    threads = [
        threading.Thread(target=work, name=f"netdebug-test-{work.__name__}") for work in (look, look, follow)
    ]
    for thread in threads:
        thread.start()
    for step in range(1, 1500):
        writer.put(record(step))
        if step % 100 == 0:
            assert writer.flush()
    writer.close()
    done.set()
    for thread in threads:
        thread.join()
    run.refresh()
    assert ([], list(range(1500))) == (failures, steps(run))


def test_a_garbage_file_that_grows_is_given_up_bit_by_bit(logdir: Path) -> None:
    """It never becomes whole, and is not searched from its beginning for ever."""
    path = logdir / "events.out.tfevents.1.netdebug"
    index, storage = FileIndex(Local(), str(path)), Local()
    with path.open("wb") as file:
        file.truncate(80 << 20)
    assert [0] == [len(news.blocks) for news in index.grow(storage.files(str(logdir))[path.name])][:1]
    assert (60 << 20) < index.at < (80 << 20)
    with path.open("ab") as file:
        file.write(blocks(plain(range(4))))
    found = [news.blocks for news in index.grow(storage.files(str(logdir))[path.name])]
    assert 1 == sum(map(len, found))
    assert 2 == index.gap_count
