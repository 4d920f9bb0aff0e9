"""Blocks of a file that have changed places, are there twice or are gone: every door tells the same steps."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tb_netdebug as nd
from tb_netdebug.cli import main
from tb_netdebug.core.eventlog.reader import timeline
from tb_netdebug.core.eventlog.reader.block_order import in_order
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.records.step import Kind, StepRecord
from tests.support.disorder import check_disorder, doors, frames_of, is_block
from tests.support.event_files import blocks, write_blocks
from tests.support.recorded import WEIGHT, Recorded, opened, record, write

STEPS = 200


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The records of a real writer's file: blocks of steps and of detail, mirror and description."""
    folder = tmp_path_factory.mktemp("whole")
    write(folder, [record(step) for step in range(STEPS)], flush_every=6)
    (path,) = folder.glob("*.netdebug")
    return frames_of(path.read_bytes())


def file_of(folder: Path, frames: Sequence[bytes]) -> Path:
    path = write_blocks(folder, [])
    path.write_bytes(b"".join(frames))
    return path


def test_two_exchanged_blocks(logdir: Path, written: list[bytes], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is hidden, nothing is told to be missing, and `check` and `export` go through it in order."""
    frames = list(written)
    at = [place for place, frame in enumerate(frames) if is_block(frame)]
    frames[at[3]], frames[at[4]] = frames[at[4]], frames[at[3]]
    file_of(logdir, frames)
    assert [STEPS] * 5 == doors(logdir)
    assert ([], 0) == (opened(logdir).details()["gap_list"], opened(logdir).details()["gaps"])
    assert [] == nd.check(logdir).runs[0].complaints
    assert list(range(STEPS)) == read_run(logdir).main.steps.tolist()
    assert 0 == main(["export", str(logdir), "--csv", "-o", "-"])
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [str(step) for step in range(STEPS)] == [row.split(",")[1] for row in rows]
    assert 0 == main(["watch", str(logdir), "--once"])
    assert f"step {STEPS - 1}" in capsys.readouterr().out


@given(data=st.data())
@settings(max_examples=25)
def test_any_order(
    tmp_path_factory: pytest.TempPathFactory, written: list[bytes], data: st.DataObject
) -> None:
    """Whatever moved, came twice or went away: the doors agree, and show the numbers that are there."""
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    frames = list(written)
    for _ in range(data.draw(st.integers(1, 12))):
        way = data.draw(st.sampled_from(["exchange", "move", "repeat", "remove"]))
        at, other = rng.randrange(len(frames)), rng.randrange(len(frames))
        if way == "exchange":
            frames[at], frames[other] = frames[other], frames[at]
        elif way == "move":
            frames.insert(other, frames.pop(at))
        elif way == "repeat":
            frames.insert(other, frames[at])
        else:
            del frames[at]
    if data.draw(st.booleans()):
        rng.shuffle(frames)
    expect_all(tmp_path_factory.mktemp("any"), frames, written)


def expect_all(folder: Path, frames: Sequence[bytes], written: Sequence[bytes]) -> None:
    known = [frame for frame in dict.fromkeys(frames) if is_block(frame)]
    if not known:
        return
    file_of(folder, [frame for frame in written if frame in set(known)])
    expected = Recorded.of(folder)
    next(iter(folder.glob("*.netdebug"))).unlink()
    file_of(folder, frames)
    steps = sorted(expected.scalars["loss"])
    assert [len(steps)] * 5 == doors(folder)
    run = opened(folder)
    for points in (20, 10_000):
        view = run.scalars(["loss", "rare"], points=points)
        for name, columns in view.scalars.items():
            expected.check_scalar(name, columns, first=0, last=STEPS)
    heat = run.heat(Kind.WEIGHT, "max", columns=10_000)
    shown = dict(zip(heat.last.tolist(), np.asarray(heat.values)[0].tolist(), strict=True))
    assert {step: one.max for step, one in expected.tensors.get(WEIGHT, {}).items()} == pytest.approx(
        {int(step): value for step, value in shown.items()}
    )


@pytest.mark.parametrize("order", ["reversed", "shuffled", "twice"])
def test_many_blocks_of_one_step(logdir: Path, order: str) -> None:
    """Thousands of blocks in falling or in no order: as quick to read, and as whole."""
    steps = list(range(3000))
    if order == "twice":
        steps = [step for at in range(0, 3000, 2) for step in (at, at + 1, at, at + 1)]
    elif order == "shuffled":
        random.Random(1).shuffle(steps)
    else:
        steps.reverse()
    write_blocks(logdir, [StepRecord(step, 1.0, {"loss": float(step)}) for step in steps], size=1)
    assert [3000] * 5 == doors(logdir)
    curve = opened(logdir).scalars(["loss"], points=10_000).scalars["loss"]
    assert curve.step.tolist() == curve.mean.tolist() == list(map(float, range(3000)))


def test_more_resumptions_than_are_kept_apart(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old stretches become one, without a step of theirs being hidden or told from the wrong recording."""
    monkeypatch.setattr(timeline, "MOST_STRETCHES", 8)
    records = [
        StepRecord(step, 1.0, {"loss": step + number / 64})
        for number in range(40)
        for step in range(number * 5, number * 5 + 12)
    ]
    write_blocks(logdir, records, size=4)
    newest = {record.step: record.scalars["loss"] for record in records}
    curve = opened(logdir).scalars(["loss"], points=10_000).scalars["loss"]
    assert list(newest) == curve.step.tolist()
    assert list(newest.values()) == curve.mean.tolist()
    assert [len(newest)] * 4 == doors(logdir)[:4]


def test_a_block_that_arrives_late(logdir: Path) -> None:
    """While the page follows: first there is a gap in the steps, then the block comes and closes it."""
    parts = [blocks([StepRecord(s, 1.0, {"loss": 1.0}) for s in range(at, at + 5)]) for at in range(0, 40, 5)]
    path = write_blocks(logdir, [])
    late = parts.pop(3)
    path.write_bytes(b"".join(parts[:5]))
    run = opened(logdir)
    (gap,) = run.details()["gap_list"]
    assert ("steps 15 to 19 are missing" in gap["complaint"], 25) == (True, run.details()["steps"])
    assert any("steps 15 to 19 are missing" in told for told in nd.check(logdir).runs[0].complaints)
    for part in (late, *parts[5:]):
        with path.open("ab") as file:
            file.write(part)
        run.refresh()
    assert ([], 40) == (run.details()["gap_list"], run.details()["steps"])
    assert list(range(40)) == run.scalars(["loss"]).scalars["loss"].step.tolist()


def test_steps_in_tens_are_not_missing(logdir: Path) -> None:
    """Nobody knows which numbers there should be."""
    for number, size in enumerate((1, 4)):
        folder = logdir / str(number)
        write_blocks(folder, [StepRecord(10 * s, 1.0, {"loss": 1.0}) for s in range(30)], size=size)
        assert ([], 30) == (opened(folder).details()["gap_list"], opened(folder).details()["steps"])


def test_a_resumed_training_is_counted_once(logdir: Path) -> None:
    """By the page and by `check`; the reader of whole runs keeps both recordings."""
    write(logdir, [record(step) for step in range(100)])
    write(logdir, [record(step, offset=1.0) for step in range(80, 130)])
    assert [130, 130, 130, 130, 150] == doors(logdir)
    assert 150 == len(read_run(logdir).main.steps)


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([(0, 3), (8, 11), (4, 7), (12, 15)], [0, 2, 1, 3]),
        ([(4, 7), (0, 3), (8, 11)], [1, 0, 2]),
        ([(0, 9), (10, 19), (5, 9), (10, 24)], [0, 1, 2, 3]),
        ([(0, 9), (20, 29), (10, 19), (15, 19), (20, 24)], [0, 2, 1, 3, 4]),
        ([(9, 9), (7, 7), (8, 8), (1, 1)], [3, 1, 2, 0]),
    ],
)
def test_the_order_of_recording(ranges: list[tuple[int, int]], expected: list[int]) -> None:
    """What was exchanged goes back to its place; what a resumed training recorded again stays behind."""
    assert expected == in_order(ranges)


@pytest.mark.parametrize("seed", range(12))
def test_forged_headers_and_zeros_between_records(tmp_path: Path, written: list[bytes], seed: int) -> None:
    """A slice of what `make soak` does with files that have arrived: no step is hidden, none doubled."""
    original = file_of(tmp_path / "original", written)
    assert STEPS == check_disorder(original, tmp_path / "disturbed", random.Random(seed))
