"""Runs that others recorded: torch's SummaryWriter, TensorFlow's tensors, and what is odd in them."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

from tb_netdebug.core.eventlog.reader import summaries, summary_views
from tb_netdebug.core.eventlog.reader.bins import Bins, bins_of, merged
from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.eventlog.writer.values import histogram, scalar
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.step import Kind, Series
from tests.support.event_files import framed
from tests.support.recorded import opened

HISTOGRAM = Series(Kind.TENSOR, "weights")


def numbers(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(step, 1, 500)


def summary_writer(folder: Path, steps: range) -> None:
    with SummaryWriter(str(folder)) as writer:
        for step in steps:
            writer.add_scalar("train/loss", 1 / (step + 1), step)
            writer.add_scalar("new", 2.0 * step, step, new_style=True)
            if step % 10 == 0:
                writer.add_histogram("weights", numbers(step), step)
                writer.add_text("notes", "no number", step)


def test_scalars_of_a_summary_writer(logdir: Path) -> None:
    """Both of its styles, at every step."""
    summary_writer(logdir, range(200))
    run = opened(logdir)
    found = run.scalars(["train/loss", "new", "notes", "none"]).scalars
    assert ["train/loss", "new"] == list(found)
    assert list(range(200)) == found["new"].step.tolist()
    assert [2.0 * step for step in range(200)] == found["new"].mean.tolist() == found["new"].end.tolist()
    assert (np.diff(found["new"].time) >= 0).all()
    assert np.isnan(found["new"].samples).all()
    few = run.scalars(["new"], points=10, first=50, last=149).scalars["new"]
    assert (len(few.step) <= 10, 100.0) == (True, few.count.sum())
    assert (100.0, 298.0) == (few.min.min(), few.max.max())


def test_details_of_a_summary_writer(logdir: Path) -> None:
    """What there is of it, under the same names as for a run of ours."""
    summary_writer(logdir, range(50))
    details = opened(logdir).details()
    expected = {
        "kind": "summary", "first_step": 0, "last_step": 49, "steps": 50, "scalars": ["train/loss", "new"],
        "series": [{"kind": "tensor", "name": "weights"}], "ranks": [0], "gaps": 0, "has_graph": False,
        "complaint": None, "info": {}, "sampled_every": None,
    }  # fmt: skip
    assert expected == {key: details[key] for key in expected}
    assert details["loss"] == pytest.approx(1 / 50)
    assert 1.6e9 < details["first_time"] <= details["last_time"]


def test_histograms_of_a_summary_writer(logdir: Path) -> None:
    """Their buckets are the bins; quantiles and moments are near the real ones."""
    summary_writer(logdir, range(60))
    run = opened(logdir)
    heat = run.heat(Kind.TENSOR, "mean")
    assert (["weights"], [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]) == (heat.names, heat.first.tolist())
    assert [numbers(step).mean() for step in range(0, 60, 10)] == pytest.approx(
        heat.values[0].tolist(), rel=1e-5
    )
    bands = run.bands(HISTOGRAM)
    expected = np.quantile(numbers(20), [0.25, 0.5, 0.75])
    assert np.allclose(expected, bands.quantiles[2, 3:6], rtol=0.1)
    assert numbers(20).std() == pytest.approx(bands.statistics["std"][2], rel=1e-6)
    ridge = run.histograms(HISTOGRAM, columns=3)
    assert ([0.0, 20.0, 50.0], 4) == (ridge.first.tolist(), len(ridge.offsets))
    assert 3 * 500 == ridge.counts.sum()
    table = run.statistics_at(Kind.TENSOR, step=25)
    assert (["weights"], [20.0]) == (table.names, table.steps.tolist())
    assert numbers(20).max() == pytest.approx(table.statistics["max"][0])
    assert [] == run.heat(Kind.WEIGHT, "mean").names
    with pytest.raises(ReaderError):
        run.heat(Kind.TENSOR, "ratio")


def test_a_merged_histogram(logdir: Path) -> None:
    """Of a range all histograms together; the newest one before it when the range holds none."""
    summary_writer(logdir, range(40))
    run = opened(logdir)
    view = run.histogram(HISTOGRAM, first=5, last=39)
    assert view is not None
    assert (3, 10, 30) == (view.merged, view.first, view.last)
    assert 1500 == pytest.approx(view.counts.sum())
    alone = run.histogram(HISTOGRAM, first=11, last=19)
    assert alone is not None
    assert (1, 10) == (alone.merged, alone.first)
    assert run.histogram(Series(Kind.TENSOR, "none"), first=0, last=9) is None


def test_tensorflow_style_tables(logdir: Path) -> None:
    """Rows of left edge, right edge and count."""
    table = np.array([[-1.0, 0.0, 3.0], [0.0, 1.0, 0.0], [1.0, 2.0, 1.0]])
    data = framed([histogram("weights", 4, 1.0, table), scalar("a", 4, 1.0, 5.0)])
    (logdir / "events.out.tfevents.1700000000.host").write_bytes(data)
    view = opened(logdir).histogram(HISTOGRAM, first=0, last=9)
    assert view is not None
    assert ([-1.0, 1.0], [0.0, 2.0], [3.0, 1.0]) == (
        view.lower.tolist(),
        view.upper.tolist(),
        view.counts.tolist(),
    )
    assert (-1.0, 2.0, 0.0) == tuple(view.statistics[name] for name in ("min", "max", "mean"))


def test_several_files_and_steps_that_go_back(logdir: Path) -> None:
    """The newest value of a step counts, and nothing before it is lost."""
    for number, (steps, offset) in enumerate(((range(10), 0.0), (range(5, 12), 0.5))):
        values = [scalar("loss", step, 1.0, step + offset) for step in steps]
        (logdir / f"events.out.tfevents.170000000{number}.host").write_bytes(framed(values))
    found = opened(logdir).scalars(["loss"]).scalars["loss"]
    assert [0.0, 1.0, 2.0, 3.0, 4.0, *(step + 0.5 for step in range(5, 12))] == found.mean.tolist()


def test_a_file_that_grows_or_goes(logdir: Path) -> None:
    """What was added is read; what is gone is no longer shown."""
    path, other = (logdir / f"events.out.tfevents.170000000{number}.host" for number in (0, 1))
    path.write_bytes(framed([scalar("loss", step, 1.0, 1.0) for step in range(5)]))
    other.write_bytes(framed([scalar("loss", step, 1.0, 2.0) for step in range(5, 9)]))
    run = opened(logdir)
    with other.open("ab") as file:
        file.write(framed([scalar("loss", 9, 1.0, 2.0)]))
    assert (True, False) == (run.refresh(), run.refresh())
    assert list(range(10)) == steps_of(run)
    path.unlink()
    assert run.refresh()
    assert list(range(5, 10)) == steps_of(run)


def steps_of(run: FollowedRun) -> list[float]:
    return run.scalars(["loss"], points=10**6).scalars["loss"].step.tolist()


def test_values_that_are_not_finite(logdir: Path) -> None:
    """They are counted, and the end is as it came."""
    values = [1.0, math.nan, math.inf, 3.0, -math.inf]
    data = framed([scalar("loss", step, 1.0, value) for step, value in enumerate(values)])
    (logdir / "events.out.tfevents.1700000000.host").write_bytes(data)
    found = opened(logdir).scalars(["loss"], points=1).scalars["loss"]
    assert (3.0, 5.0, 2.0, -math.inf) == (found.bad[0], found.count[0], found.mean[0], found.end[0])


def test_a_damaged_file_of_others(logdir: Path) -> None:
    """A bad byte does not end the run, as it does in TensorBoard."""
    data = bytearray(framed([scalar("loss", step, 1.0, 1.0) for step in range(100)]))
    data[len(data) // 2] ^= 1
    (logdir / "events.out.tfevents.1700000000.host").write_bytes(data)
    run = opened(logdir)
    assert (99, 1) == (len(steps_of(run)), run.details()["gaps"])


def test_long_tags_are_thinned_out(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: of too many points every second one stays, evenly."""
    monkeypatch.setattr(summaries, "MOST_POINTS_OF_A_TAG", 1000)
    path = logdir / "events.out.tfevents.1700000000.host"
    path.write_bytes(b"")
    run = opened(logdir)
    for start in range(0, 10_000, 500):
        with path.open("ab") as file:
            file.write(framed([scalar("loss", step, 1.0, step) for step in range(start, start + 500)]))
        run.refresh()
    found = steps_of(run)
    assert 500 <= len(found) <= 1000
    assert {16.0} == set(np.diff(found))
    assert 9000 <= run.details()["steps"] <= 10_000


def test_too_many_tags_are_left_out(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And it is said."""
    monkeypatch.setattr(summaries, "MOST_TAGS", 50)
    data = framed([scalar(f"tag{number}", 1, 1.0, 1.0) for number in range(80)])
    (logdir / "events.out.tfevents.1700000000.host").write_bytes(data)
    details = opened(logdir).details()
    assert (50, True) == (len(details["scalars"]), "more than 50 tags" in details["complaint"])


def test_tags_that_are_no_text(logdir: Path) -> None:
    """Any bytes may be a tag; the point is shown under a name that can be sent."""
    value = b"\x0a\x02\xff\xfe" + b"\x15" + bytes(4)
    summary = b"\x0a" + bytes([len(value)]) + value
    event = b"\x10\x01" + b"\x2a" + bytes([len(summary)]) + summary
    (logdir / "events.out.tfevents.1700000000.host").write_bytes(frame(event))
    assert ["\ufffd\ufffd"] == opened(logdir).details()["scalars"]


@pytest.mark.parametrize(
    "histo",
    [
        pb.HistogramProto(),
        pb.HistogramProto(min=0, max=1, bucket_limit=[1.0], bucket=[1.0, 2.0]),
        pb.HistogramProto(min=0, max=1, bucket_limit=[math.nan], bucket=[1.0]),
        pb.HistogramProto(min=0, max=1, bucket_limit=[0.5, 1.0], bucket=[-1.0, 2.0]),
        pb.HistogramProto(min=0, max=1, bucket_limit=[0.9, 0.1], bucket=[1.0, 2.0]),
        pb.HistogramProto(min=0, max=1, bucket_limit=[1.0], bucket=[0.0]),
        pb.HistogramProto(min=0, max=1, bucket_limit=[1.0] * 20_000, bucket=[1.0] * 20_000),
    ],
)
def test_histograms_that_make_no_sense(histo: pb.HistogramProto) -> None:
    """They are passed over."""
    assert bins_of(pb.Summary.Value(histo=histo).SerializeToString()) is None


def test_a_histogram_of_one_number() -> None:
    """A bin of no width, which merges with others where it lies."""
    single = pb.HistogramProto(min=3, max=3, num=7, sum=21, sum_squares=63, bucket_limit=[4.0], bucket=[7.0])
    one = bins_of(pb.Summary.Value(histo=single).SerializeToString())
    assert one is not None
    assert ([3.0], [3.0], [7.0]) == (one.lower.tolist(), one.upper.tolist(), one.counts.tolist())
    other = Bins(np.array([0.0, 4.0]), np.array([4.0, 8.0]), np.array([10.0, 20.0]), 1.0, 1.0)
    both = merged([one, other])
    assert 37.0 == both.counts.sum()
    assert 10.0 + 7.0 == pytest.approx(both.counts[both.upper <= 4.0].sum())
    assert [7.0] == merged([one]).counts.tolist()
    assert [14.0] == merged([one, one]).counts.tolist()


def test_a_picture_of_too_many_histograms_is_coarser(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has to be unpacked, so a picture has only so many."""
    monkeypatch.setattr(summary_views, "MOST_UNPACKED", 30)
    table = np.array([[0.0, 1.0, 2.0]])
    values = [histogram(f"h{at}", step, 1.0, table) for step in range(100) for at in range(3)]
    (logdir / "events.out.tfevents.1700000000.host").write_bytes(framed(values))
    heat = opened(logdir).heat(Kind.TENSOR, "count")
    assert (3, True) == (len(heat.names), len(heat.first) <= 10)
    assert {2.0} == set(heat.values.reshape(-1).tolist())
