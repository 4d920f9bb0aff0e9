"""What is repeated for TensorBoard's own dashboards: little, and evenly shared."""

from __future__ import annotations

import numpy as np
import pytest

from tb_netdebug.core.eventlog.writer.mirror import Mirror, MirrorOptions, rows_of
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.twin import summarize


def packed(*numbers: float) -> bytes:
    array = np.array(numbers, np.float32)
    return summarize([(array.ctypes.data, array.size, 0)], 1)[0]


def batch(start: int, count: int, **scalars: float) -> list[StepRecord]:
    return [StepRecord(step, float(step), {"loss": 1.0, **scalars}) for step in range(start, start + count)]


def steps_of(mirror: Mirror, records: list[StepRecord], tag: str = "loss") -> list[int]:
    return [value.step for value in mirror.scalars(records) if value.tag == tag]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def sampled(step: int, *names: str) -> list[StepRecord]:
    samples = [Sample(Series(Kind.WEIGHT, name), packed(1.0, 2.0, 3.0)) for name in names]
    return [StepRecord(step, float(step), {}, samples)]


def test_first_every_point_then_the_newest_of_each_block() -> None:
    """The number of points is bounded by the time that a run takes, not by its steps."""
    mirror = Mirror(MirrorOptions(first_points=10))
    assert [0, 1, 2, 3] == steps_of(mirror, batch(0, 4))
    assert [*range(4, 10), 23] == steps_of(mirror, batch(4, 20))
    assert [123] == steps_of(mirror, batch(24, 100))
    assert [124] == steps_of(mirror, batch(124, 1))


def test_a_rare_scalar_is_always_repeated() -> None:
    """A validation loss once an epoch is not thinned out by the steps between."""
    mirror = Mirror(MirrorOptions(first_points=1))
    found = []
    for epoch in range(5):
        records = batch(100 * epoch, 100)
        records[50].scalars["scalar/validation"] = 1.0
        found += steps_of(mirror, records, "scalar/validation")
    assert [50, 150, 250, 350, 450] == found


def test_only_listed_names_are_repeated() -> None:
    """A name that ends with a slash stands for all below it."""
    mirror = Mirror(MirrorOptions(scalars=("loss", "lr/")))
    records = [StepRecord(1, 1.0, {"loss": 1.0, "losses": 1.0, "lr/0": 1.0, "lr": 1.0, "time/step": 1.0})]
    assert ["loss", "lr/0"] == sorted(value.tag for value in mirror.scalars(records))


def test_a_step_that_does_not_rise_is_left_out() -> None:
    """TensorBoard would erase the points after it."""
    mirror = Mirror(MirrorOptions())
    assert [5, 6] == steps_of(mirror, batch(5, 2))
    assert [7] == steps_of(mirror, batch(3, 5))
    assert [] == steps_of(mirror, batch(7, 1))


def test_a_negative_step_is_left_out() -> None:
    """One point at step -1 makes TensorBoard forget all others."""
    assert [0] == steps_of(Mirror(MirrorOptions()), batch(-3, 4))


def test_each_tensor_has_its_turn_once_in_an_interval() -> None:
    """The newest sample of the block is taken."""
    clock = Clock()
    mirror = Mirror(MirrorOptions(histogram_secs=60.0), clock=clock)
    assert [1] == [value.step for value in mirror.histograms(sampled(0, "a") + sampled(1, "a"), 0)]
    clock.now = 59.0
    assert [] == list(mirror.histograms(sampled(2, "a"), 0))
    clock.now = 60.0
    assert [3] == [value.step for value in mirror.histograms(sampled(3, "a"), 0)]


def test_histograms_keep_to_their_share_of_the_log() -> None:
    """However many tensors there are; those that waited longest come first."""
    options = MirrorOptions(histogram_secs=0.0, histogram_allowance_bytes=0, histogram_share=0.1)
    names = [f"layer{number}" for number in range(8)]
    clock = Clock()
    mirror = Mirror(options, clock=clock)
    found, spent, log_bytes = [], 0, 0
    for step in range(100):
        clock.now = float(step)
        log_bytes += 1000
        made = list(mirror.histograms(sampled(step, *names), log_bytes))
        found += [value.tag.removeprefix("weight/") for value in made]
        spent += sum(value.tensor.ByteSize() for value in made)
    assert spent <= 0.1 * log_bytes + 500
    assert len(found) >= 30
    assert names * (len(found) // 8) == found[: len(found) // 8 * 8]


def test_a_block_makes_few_histograms_at_once() -> None:
    """They cost time that the training thread could feel."""
    mirror = Mirror(MirrorOptions(histograms_per_block=16, histogram_secs=60.0), clock=Clock())
    names = [f"layer{number}" for number in range(40)]
    counts = [len(list(mirror.histograms(sampled(step, *names), 0))) for step in range(4)]
    assert [16, 16, 8, 0] == counts


def test_tensors_without_finite_values_do_not_hold_up_the_others() -> None:
    """There is nothing to draw of them, and then the next ones have their turn."""
    mirror = Mirror(MirrorOptions(histograms_per_block=2), clock=Clock())
    sick = [Sample(Series(Kind.WEIGHT, f"sick{number}"), packed(float("nan"))) for number in range(2)]
    records = sampled(0, "well")
    records[0].samples[:0] = sick
    assert [] == list(mirror.histograms(records, 0))
    assert ["weight/well"] == [value.tag for value in mirror.histograms(records, 0)]


def test_histograms_can_be_switched_off() -> None:
    """With None for the interval."""
    assert [] == list(Mirror(MirrorOptions(histogram_secs=None)).histograms(sampled(1, "a"), 1 << 30))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ([], []),
        ([float("nan"), float("inf")], []),
        ([2.0, 2.0], [[1.5, 2.5, 2.0]]),
        ([0.0], [[-0.5, 0.5, 1.0]]),
    ],
)
def test_buckets_of_few_values(numbers: list[float], expected: list[list[float]]) -> None:
    """Nothing finite gives no bucket, a constant gives one of width 1."""
    assert expected == rows_of(Summary.unpack(packed(*numbers)), 30).tolist()


def test_buckets_of_extreme_values() -> None:
    """Edges stay finite and rise, and every finite value is counted."""
    rows = rows_of(Summary.unpack(packed(-3.4e38, -1e-40, 0.0, 1.0, 3.4e38, float("inf"))), 30)
    assert np.isfinite(rows).all()
    assert (5.0, True) == (rows[:, 2].sum(), bool((np.diff(rows[:, 0]) > 0).all()))
