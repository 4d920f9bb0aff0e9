"""Scalars over any range, at any coarseness: the same as from every record, one by one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.core.records.step import StepRecord
from tests.support.event_files import write_blocks
from tests.support.long_run import write_long_run
from tests.support.recorded import Recorded, opened, record, write

NAMES = ["loss", "rare", "bad", "batch_size"]


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """9000 steps in blocks of 20, with three levels of detail."""
    folder = tmp_path_factory.mktemp("long")
    write_long_run(folder, steps=9000, tensors=4, every=8)
    return folder


@pytest.fixture(scope="module")
def long_recorded(long_run: Path) -> Recorded:
    return Recorded.of(long_run)


def plain(steps: range, *, offset: float = 0.0) -> list[StepRecord]:
    return [StepRecord(step, 100.0 + step, {"loss": step + offset, "batch_size": 2.0}) for step in steps]


def test_every_step_where_there_is_room(logdir: Path) -> None:
    """A short run is shown as it was recorded, a missing value as missing."""
    write(logdir, [record(step) for step in range(300)])
    recorded = Recorded.of(logdir)
    view = opened(logdir).scalars([*NAMES, "nothing"])
    assert (0, NAMES) == (view.level, list(view.scalars))
    for name in NAMES:
        found = view.scalars[name]
        assert list(recorded.scalars[name]) == found.step.tolist() == found.last.tolist()
        assert [recorded.times[int(step)] for step in found.step] == found.time.tolist()
        recorded.check_scalar(name, found, first=0, last=299)
    sizes = recorded.scalars["batch_size"]
    expected = [sum(size for at, size in sizes.items() if at <= step) for step in (0, 100, 299)]
    assert expected == view.scalars["loss"].samples[[0, 100, 299]].tolist()


@pytest.mark.parametrize("points", [1, 2, 7, 30, 100, 500, 5000])
def test_any_number_of_points(long_run: Path, long_recorded: Recorded, points: int) -> None:
    """No more than were asked for, and together they tell of every step."""
    found = opened(long_run).scalars(["loss", "monitor/every"], points=points).scalars
    assert len(found["loss"].step) <= points
    assert len(found["loss"].step) * 2 >= min(points, 9000)
    for name in ("loss", "monitor/every"):
        long_recorded.check_scalar(name, found[name], first=0, last=8999)


@pytest.mark.parametrize("points", [10, 60, 1000])
@pytest.mark.parametrize(
    ("first", "last"), [(0, 8999), (1, 8998), (255, 5000), (4096, 4351), (17, 17), (8990, 10**6)]
)
def test_any_range(long_run: Path, long_recorded: Recorded, first: int, last: int, points: int) -> None:
    """The range is kept to the step, also where coarser levels would reach beyond it."""
    run = opened(long_run)
    found = run.scalars(["loss"], first=first, last=last, points=points).scalars["loss"]
    long_recorded.check_scalar("loss", found, first=first, last=last)
    assert 32.0 * (int(found.last[-1]) + 1) == found.samples[-1]


def test_coarser_levels_are_used(long_run: Path) -> None:
    """A long run is not read step by step to be seen from afar."""
    run = opened(long_run)
    levels = [run.scalars(["loss"], points=points).level for points in (1, 30, 500, 9000)]
    assert [4, 2, 1, 0] == levels


def test_an_empty_range(long_run: Path) -> None:
    """Where there are no steps, there are no scalars."""
    run = opened(long_run)
    assert {} == run.scalars(["loss"], first=10**6).scalars
    assert {} == run.scalars(["loss"], first=10, last=9).scalars
    assert {} == run.scalars(["loss"], rank=3).scalars
    assert {} == run.scalars([]).scalars


def test_the_newest_recording_of_a_step_counts(logdir: Path) -> None:
    """A training was resumed twice: each time it goes back some steps, in a file of its own."""
    write(logdir, plain(range(0, 400)))
    write(logdir, plain(range(300, 700), offset=0.25))
    write(logdir, plain(range(350, 360), offset=0.5))
    found = opened(logdir).scalars(["loss"]).scalars["loss"]
    assert list(range(700)) == found.step.tolist()
    offsets = found.mean - found.step
    assert {0.0} == set(offsets[:300])
    assert {0.25} == {*offsets[300:350], *offsets[360:]}
    assert {0.5} == set(offsets[350:360])
    assert 1400.0 == found.samples[-1]


@pytest.mark.parametrize("points", [20, 50, 200, 1000])
def test_a_resumed_training_from_afar(logdir: Path, points: int) -> None:
    """Coarse levels of the older file that reach beyond the resumption are cut there."""
    write(logdir, plain(range(0, 3000)), flush_every=30)
    write(logdir, plain(range(1234, 4321), offset=10000.0), flush_every=30)
    recorded = Recorded.of(logdir)
    found = opened(logdir).scalars(["loss"], points=points).scalars["loss"]
    recorded.check_scalar("loss", found, first=0, last=4320)


def test_steps_that_go_back_within_a_file(logdir: Path) -> None:
    """The same process counts anew: what it recorded last counts, in one block and in several."""
    again = plain(range(0, 600)) + plain(range(100, 700), offset=0.5) + plain(range(650, 655), offset=0.75)
    write(logdir, again, flush_every=70)
    recorded = Recorded.of(logdir)
    for points in (20, 100, 1000):
        found = opened(logdir).scalars(["loss"], points=points).scalars["loss"]
        recorded.check_scalar("loss", found, first=0, last=699)


def test_a_step_counted_from_zero_in_every_epoch(logdir: Path) -> None:
    """Only the last epoch is left, whole."""
    write(logdir, [one for epoch in range(40) for one in plain(range(30), offset=epoch / 64)], flush_every=17)
    found = opened(logdir).scalars(["loss"]).scalars["loss"]
    assert [step + 39 / 64 for step in range(30)] == found.mean.tolist()


def test_steps_that_are_numbered_in_tens(logdir: Path) -> None:
    """Numbers without steps between them are no gaps."""
    write(logdir, plain(range(0, 30000, 10)))
    recorded, run = Recorded.of(logdir), opened(logdir)
    for points in (40, 300, 3000):
        found = run.scalars(["loss"], points=points).scalars["loss"]
        recorded.check_scalar("loss", found, first=0, last=29990)


def test_late_scalars_are_shown_with_their_steps(logdir: Path) -> None:
    """Numbers that a device gave out late stand behind others; they do not look like a resumption."""
    records = plain(range(0, 20))
    late = StepRecord(5, 105.0, {"late": 1.0})
    write_blocks(logdir, [*records[:12], late, *records[12:]], size=30)
    found = opened(logdir).scalars(["loss", "late"]).scalars
    assert list(range(20)) == found["loss"].step.tolist()
    assert [5.0] == found["late"].step.tolist()


def test_late_scalars_at_the_end_of_a_block(logdir: Path) -> None:
    """Only the next block tells that the training was not resumed."""
    records = plain(range(0, 40))
    write_blocks(logdir, [*records[:19], StepRecord(5, 105.0, {"late": 1.0}), *records[19:]], size=20)
    run = opened(logdir)
    assert list(range(40)) == run.scalars(["loss"]).scalars["loss"].step.tolist()


def test_ranks_have_views_of_their_own(logdir: Path) -> None:
    """Rank 0 is shown unless another one is asked for."""
    write(logdir, plain(range(10)))
    write(logdir, plain(range(7), offset=0.5), rank=2)
    run = opened(logdir)
    assert [0, 2] == run.details()["ranks"]
    assert 10 == len(run.scalars(["loss"]).scalars["loss"].step)
    assert [step + 0.5 for step in range(7)] == run.scalars(["loss"], rank=2).scalars["loss"].mean.tolist()


def test_without_batch_sizes_samples_are_not_known(logdir: Path) -> None:
    """NaN says so."""
    write(logdir, [StepRecord(step, 1.0, {"loss": 1.0}) for step in range(5)])
    assert np.isnan(opened(logdir).scalars(["loss"]).scalars["loss"].samples).all()


def test_values_at_the_end_of_the_doubles(logdir: Path) -> None:
    """Sums may overflow, and nothing else goes wrong."""
    huge = [StepRecord(step, 1.0, {"loss": 1.7e308 * (-1) ** (step // 2)}) for step in range(100)]
    write(logdir, huge)
    found = opened(logdir).scalars(["loss"], points=10).scalars["loss"]
    assert {1.7e308} == set(found.max)
    assert 100 == found.count.sum()


def test_negative_and_huge_steps(logdir: Path) -> None:
    """Any number may be a step."""
    steps = [-(2**40), -5, 0, 3, 2**40]
    write_blocks(logdir, [StepRecord(step, 1.0, {"loss": 1.0}) for step in steps], size=2)
    run = opened(logdir)
    assert steps == run.scalars(["loss"]).scalars["loss"].step.tolist()
    assert [2**40] == run.scalars(["loss"], points=3).scalars["loss"].step[-1:].tolist()
    assert (-(2**40), 2**40) == (run.details()["first_step"], run.details()["last_step"])


@given(data=st.data())
@settings(max_examples=25)
def test_any_way_of_recording(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Resumptions, strides and block sizes as they come: each file counts from its first step to its last."""
    folder = tmp_path_factory.mktemp("any")
    newest: dict[int, float] = {}
    for number in range(data.draw(st.integers(1, 3))):
        start, count = data.draw(st.integers(0, 300)), data.draw(st.integers(1, 400))
        stride, size = data.draw(st.sampled_from([1, 1, 3])), data.draw(st.sampled_from([1, 7, 64]))
        steps = range(start, start + count * stride, stride)
        write(folder, plain(steps, offset=number / 8), flush_every=max(size, count // 20))
        newest = {step: value for step, value in newest.items() if not steps[0] <= step <= steps[-1]}
        newest |= {step: step + number / 8 for step in steps}
    points = data.draw(st.sampled_from([5, 40, 2000]))
    first, last = sorted(data.draw(st.tuples(st.integers(0, 1500), st.integers(0, 1500))))
    view = opened(folder).scalars(["loss"], first=first, last=last, points=points)
    expected = Recorded(scalars={"loss": dict(sorted(newest.items()))})
    inside = [step for step in newest if first <= step <= last]
    assert bool(inside) == ("loss" in view.scalars)
    if inside:
        expected.check_scalar("loss", view.scalars["loss"], first=first, last=last)


def test_the_loss_that_is_told_is_the_newest(logdir: Path) -> None:
    """Also when the last steps had none."""
    write(logdir, [*plain(range(10)), StepRecord(10, 110.0, {"other": math.nan})], flush_every=3)
    details = opened(logdir).details()
    assert (9.0, 0, 10, 11) == tuple(details[key] for key in ("loss", "first_step", "last_step", "steps"))
    assert (100.0, 110.0) == (details["first_time"], details["last_time"])
