"""Heat maps, bands, histograms and tables: the same as from every sample, one by one."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.statistics import EXACT, QUANTILES, STATISTICS
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.graph import Graph, Node, Parameter, TensorType, encode_graph
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.sketch import finite_bins, merged, quantiles
from tests.support.event_files import write_blocks
from tests.support.record_cases import packed_of
from tests.support.recorded import (
    ACTIVATION,
    ALL_SERIES,
    GRADIENT,
    UPDATE,
    WEIGHT,
    Recorded,
    opened,
    record,
    sample,
    write,
)


@pytest.fixture(scope="module")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2400 steps, each second one sampled: two levels of detail."""
    folder = tmp_path_factory.mktemp("long")
    write(folder, [record(step, every=2) for step in range(2400)], flush_every=40)
    return folder


@pytest.fixture(scope="module")
def recorded(long_run: Path) -> Recorded:
    return Recorded.of(long_run)


def expected_statistic(name: str, samples: list[Summary]) -> float:
    """Of several samples taken together."""
    count, whole = len(samples), merged(samples)
    numbers = {
        "count": whole.count / count,
        "mean": whole.mean,
        "std": whole.std,
        "norm": math.sqrt(whole.sum_squares / count),
        "rms": math.sqrt(whole.sum_squares / whole.finite),
        "min": whole.min,
        "max": whole.max,
        "abs_max": max(abs(whole.min), abs(whole.max)),
        "zeros": whole.zeros / whole.count,
        "nan": whole.nan / count,
        "pos_inf": whole.pos_inf / count,
        "neg_inf": whole.neg_inf / count,
        "nonfinite": whole.nonfinite / whole.count,
    }
    shares = {"median": 0.5, "p01": 0.01, "p99": 0.99}
    return float(quantiles(whole, shares[name])) if name in shares else numbers[name]


@pytest.mark.parametrize("statistic", EXACT)
def test_heat_of_every_sample(long_run: Path, recorded: Recorded, statistic: str) -> None:
    """Where there is room each column is one sampled step."""
    view = opened(long_run).heat(Kind.GRADIENT, statistic, first=100, last=300)
    assert ["a.weight"] == view.names
    assert list(range(100, 301, 2)) == view.first.tolist() == view.last.tolist()
    expected = [
        expected_statistic(statistic, recorded.samples(GRADIENT, first=s, last=s)) for s in view.first
    ]
    assert np.allclose(np.array(expected, np.float32), view.values[0], rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("columns", [1, 5, 30, 60, 150, 700])
def test_heat_in_any_number_of_columns(long_run: Path, recorded: Recorded, columns: int) -> None:
    """Each column says what the samples of its steps say together, and every sample is in one of them."""
    view = opened(long_run).heat(Kind.WEIGHT, "std", columns=columns)
    assert min(columns, 2) <= len(view.first) <= columns
    assert (view.first[1:] > view.last[:-1]).all()
    found = [
        recorded.samples(WEIGHT, first=low, last=high)
        for low, high in zip(view.first, view.last, strict=True)
    ]
    assert 1200 == sum(map(len, found))
    expected = [expected_statistic("std", samples) for samples in found]
    assert np.allclose(np.array(expected, np.float32), view.values[0], rtol=1e-5)


def test_coarser_samples_are_used(long_run: Path) -> None:
    """From afar each column is made of several samples that were merged when they were written."""
    run = opened(long_run)
    near, afar = (run.heat(Kind.WEIGHT, "count", columns=columns) for columns in (2000, 40))
    assert 1200 == len(near.first)
    assert (afar.last - afar.first > 16).all()
    assert {50.0} == set(near.values[0]) == set(afar.values[0])


def test_update_ratio(long_run: Path, recorded: Recorded) -> None:
    """The norm of the update over that of the weight of the same name."""
    view = opened(long_run).heat(Kind.UPDATE, "ratio", first=40, last=60)
    expected = [
        recorded.tensors[UPDATE][int(step)].norm / recorded.tensors[WEIGHT][int(step)].norm
        for step in view.first
    ]
    assert np.allclose(np.array(expected, np.float32), view.values[0])


def test_inactive_units(logdir: Path) -> None:
    """The share of units that were not active; NaN where a tensor has no units."""
    write(logdir, [record(step) for step in range(8)])
    run = opened(logdir)
    assert [1 - 1 / 16, 1 - 2 / 16] == run.heat(Kind.ACTIVATION, "inactive_units").values[0].tolist()
    assert np.isnan(run.heat(Kind.WEIGHT, "inactive_units").values).all()


@pytest.mark.parametrize("statistic", ["median", "no such", "ratio", "\ud800"])
def test_a_statistic_that_cannot_be_drawn(long_run: Path, statistic: str) -> None:
    """It is refused in a sentence."""
    with pytest.raises(ReaderError, match="no statistic"):
        opened(long_run).heat(Kind.WEIGHT, statistic)


def test_names_by_a_pattern_in_the_order_of_execution(logdir: Path) -> None:
    """The graph says what is called first; what it does not know comes last."""
    names = ["z.weight", "head.weight", "body.0.weight", "body.0.bias", "unknown"]
    writer = EventWriter(logdir)
    nodes = [Node("", "Net"), Node("head", "Linear", "", order=2), Node("body", "Seq", "", order=0)]
    nodes += [
        Node(
            "body.0", "Linear", "body", order=1, own_parameters=(Parameter("weight", TensorType((1,), "f")),)
        )
    ]
    writer.graph(encode_graph(Graph((*nodes, Node("z", "Linear", "")))))
    writer.put(StepRecord(0, 1.0, {"loss": 1.0}, [sample(Series(Kind.WEIGHT, name), 1) for name in names]))
    writer.close()
    run = opened(logdir)
    in_order = ["body.0.weight", "body.0.bias", "head.weight", "z.weight", "unknown"]
    assert in_order == run.heat(Kind.WEIGHT, "std").names == run.statistics_at(Kind.WEIGHT).names
    assert in_order == [series["name"] for series in run.details()["series"]]
    assert ["body.0.weight", "body.0.bias"] == run.heat(Kind.WEIGHT, "std", pattern=r"^body\.").names
    assert [] == run.heat(Kind.WEIGHT, "std", pattern="nothing").names
    for pattern in ("(", "x" * 1000, "(?P<a>)" * 200):
        with pytest.raises(ReaderError):
            run.heat(Kind.WEIGHT, "std", pattern=pattern)


@pytest.mark.parametrize("columns", [3, 40, 2000])
def test_bands(long_run: Path, recorded: Recorded, columns: int) -> None:
    """Quantiles and all statistics of the merged samples of each column."""
    view = opened(long_run).bands(ACTIVATION, columns=columns, first=10, last=1500)
    assert set(STATISTICS) == set(view.statistics)
    places = range(0, len(view.first), max(1, len(view.first) // 10))
    for at in places:
        samples = recorded.samples(ACTIVATION, first=view.first[at], last=view.last[at])
        assert np.allclose(quantiles(merged(samples), QUANTILES), view.quantiles[at])
        for name in (*EXACT, "median", "p01", "p99"):
            assert view.statistics[name][at] == pytest.approx(expected_statistic(name, samples), nan_ok=True)


@pytest.mark.parametrize(("first", "last"), [(0, 2399), (3, 2000), (1000, 1001), (17, 900)])
def test_a_histogram_of_a_range(long_run: Path, recorded: Recorded, first: int, last: int) -> None:
    """Exactly the samples of the range, merged: the bins are those of the sketch."""
    view = opened(long_run).histogram(GRADIENT, first=first, last=last)
    samples = recorded.samples(GRADIENT, first=first, last=last)
    whole = merged(samples)
    assert view is not None
    assert (len(samples), 50.0 * len(samples)) == (view.merged, view.counts.sum())
    steps = [step for step in recorded.tensors[GRADIENT] if first <= step <= last]
    assert (steps[0], steps[-1]) == (view.first, view.last)
    lower, upper, counts = finite_bins(whole)
    assert lower.tolist() == view.lower.tolist()
    assert upper.tolist() == view.upper.tolist()
    assert counts.tolist() == view.counts.tolist()
    assert view.statistics["p99"] == pytest.approx(expected_statistic("p99", samples))


def test_a_histogram_of_a_range_without_samples(logdir: Path) -> None:
    """The newest one before the end of the range; none when there is none."""
    write(logdir, [record(step, every=100) for step in range(150)])
    run = opened(logdir)
    view = run.histogram(WEIGHT, first=120, last=140)
    assert view is not None
    assert (100, 100, 1) == (view.first, view.last, view.merged)
    view = run.histogram(WEIGHT, first=5, last=99)
    assert view is not None
    assert 0 == view.first
    assert run.histogram(Series(Kind.WEIGHT, "none"), first=0, last=140) is None
    assert run.histogram(WEIGHT, first=0, last=140, rank=4) is None


def test_numbers_beside_the_bins(logdir: Path) -> None:
    """What is not finite is counted beside the bins, and units are told."""
    values = np.array([np.nan, np.inf, np.inf, -np.inf, 0.0, -0.0, 1.0], np.float32)
    tensor = Series(Kind.TENSOR, "odd")
    records = [StepRecord(0, 1.0, {}, [Sample(tensor, packed_of(values), Units(10, b"\xff\x01"))])]
    records += [StepRecord(1, 1.0, {}, [Sample(Series(Kind.TENSOR, "none"), packed_of(values[:0]))])]
    write_blocks(logdir, records)
    run = opened(logdir)
    view = run.histogram(tensor, first=0, last=9)
    assert view is not None
    assert (1, 2, 1, 2) == (view.nan, view.pos_inf, view.neg_inf, view.zeros)
    assert (9, 10, 3.0) == (view.units_active, view.units, view.counts.sum())
    view = run.histogram(Series(Kind.TENSOR, "none"), first=0, last=9)
    assert view is not None
    assert (0, None, True) == (len(view.counts), view.units, math.isnan(view.statistics["median"]))


def test_histograms_one_behind_the_other(long_run: Path, recorded: Recorded) -> None:
    """Each has its own bins, and together they count every value of the range."""
    view = opened(long_run).histograms(WEIGHT, columns=20, first=0, last=999)
    assert len(view.offsets) == len(view.first) + 1 <= 21
    assert view.offsets[-1] == len(view.lower) == len(view.upper) == len(view.counts)
    assert 500 * 50.0 == view.counts.sum()
    for at, (low, high) in enumerate(zip(view.first, view.last, strict=True)):
        lower, _, counts = finite_bins(merged(recorded.samples(WEIGHT, first=low, last=high)))
        part = slice(view.offsets[at], view.offsets[at + 1])
        assert (lower.tolist(), counts.tolist()) == (view.lower[part].tolist(), view.counts[part].tolist())


def test_a_table_of_all_tensors(long_run: Path, recorded: Recorded) -> None:
    """The newest sample of each at or before a step."""
    run = opened(long_run)
    for step, sampled in ((None, 2398), (1001, 1000), (0, 0)):
        view = run.statistics_at(Kind.GRADIENT, step=step)
        assert (["a.weight"], [float(sampled)]) == (view.names, view.steps.tolist())
        for name in (*EXACT, "median"):
            expected = expected_statistic(name, [recorded.tensors[GRADIENT][sampled]])
            assert view.statistics[name][0] == pytest.approx(expected, nan_ok=True)
    assert [] == run.statistics_at(Kind.GRADIENT, step=-1).names
    assert [] == run.statistics_at(Kind.TENSOR).names


def test_late_samples_belong_to_their_steps(logdir: Path) -> None:
    """The flight recorder writes what it held back when trouble comes; the newest one of a step counts."""
    writer = EventWriter(logdir)
    for step in range(600):
        samples = [sample(WEIGHT, step)] if step % 32 == 0 else []
        writer.put(StepRecord(step, 1.0 + step, {"loss": float(step)}, samples))
        if step % 40 == 39:
            assert writer.flush()
        if step in (450, 590):
            for late in range(step - 20, step):
                writer.put(StepRecord(late, 1.0 + late, {}, [sample(WEIGHT, late), sample(GRADIENT, late)]))
    writer.close()
    run, recorded = opened(logdir), Recorded.of(logdir)
    view = run.heat(Kind.WEIGHT, "max", first=400, last=599)
    assert [step for step in recorded.tensors[WEIGHT] if step >= 400] == view.first.tolist()
    expected = [recorded.tensors[WEIGHT][int(step)].max for step in view.first]
    assert np.array(expected, np.float32).tolist() == view.values[0].tolist()
    loss = run.scalars(["loss"], points=2000).scalars["loss"]
    assert list(range(600)) == loss.step.tolist() == loss.mean.tolist()
    whole = run.histogram(GRADIENT, first=0, last=599)
    assert whole is not None
    assert 40 == whole.merged
    for points in (10, 40, 100):
        recorded.check_scalar("loss", run.scalars(["loss"], points=points).scalars["loss"], first=0, last=599)


def test_resumed_tensors(logdir: Path) -> None:
    """Samples of a step that was recorded again are those of the newer recording."""
    write(logdir, [record(step, every=5) for step in range(700)])
    again = [record(step, every=3, series=[WEIGHT]) for step in range(500, 1200)]
    for one in again:
        one.samples = [sample(WEIGHT, one.step, size=9)] if one.samples else []
    write(logdir, again)
    run = opened(logdir)
    view = run.heat(Kind.WEIGHT, "count", columns=2000)
    newer = [step for step in range(500, 1200) if step % 3 == 0]
    assert [*range(0, 500, 5), *newer] == view.first.tolist()
    assert [50.0] * 100 + [9.0] * len(newer) == view.values[0].tolist()
    whole = run.histogram(WEIGHT, first=0, last=1200)
    assert whole is not None
    assert 100 + len(newer) == whole.merged
    coarse = run.heat(Kind.WEIGHT, "count", columns=12)
    assert {50.0, 9.0} >= {round(float(value), 3) for value in coarse.values[0] if value in (50.0, 9.0)}


def test_tensors_that_come_and_go(logdir: Path) -> None:
    """One is sampled at the start alone, one at the end alone, one rarely: each is drawn where it was."""
    early, late, rare = (Series(Kind.TENSOR, name) for name in ("early", "late", "rare"))
    records = []
    for step in range(3000):
        samples = [sample(WEIGHT, step)] if step % 4 == 0 else []
        samples += [sample(early, step)] if step < 400 and step % 4 == 0 else []
        samples += [sample(late, step)] if step >= 2600 and step % 4 == 0 else []
        samples += [sample(rare, step)] if step % 1000 == 0 else []
        records.append(StepRecord(step, 1.0, {"loss": 1.0}, samples))
    write(logdir, records)
    run, recorded = opened(logdir), Recorded.of(logdir)
    view = run.heat(Kind.TENSOR, "std", columns=5000)
    assert {"early", "late", "rare"} == set(view.names)
    for name in view.names:
        line = view.values[view.names.index(name)]
        steps = [int(step) for step, value in zip(view.first, line, strict=True) if not np.isnan(value)]
        assert list(recorded.tensors[Series(Kind.TENSOR, name)]) == steps
    afar = run.heat(Kind.TENSOR, "std", columns=20)
    drawn = {name: afar.first[~np.isnan(afar.values[at])] for at, name in enumerate(afar.names)}
    assert drawn["early"].max() < 400
    assert drawn["late"].min() >= 2500
    assert ["early", "late", "rare"] == sorted(run.statistics_at(Kind.TENSOR).names)


def test_ranks_have_tensors_of_their_own(logdir: Path) -> None:
    """Each rank is drawn by itself."""
    write(logdir, [record(step) for step in range(20)])
    write(logdir, [record(step, series=[GRADIENT]) for step in range(40)], rank=1)
    run = opened(logdir)
    assert 5 == len(run.heat(Kind.GRADIENT, "std").first)
    assert 10 == len(run.heat(Kind.GRADIENT, "std", rank=1).first)
    assert 0 == len(run.heat(Kind.WEIGHT, "std", rank=1).first)
    assert {series.kind for series in ALL_SERIES} == {
        Kind[s["kind"].upper()] for s in run.details()["series"]
    }


def test_damaged_sketches_cost_their_bins_only(logdir: Path) -> None:
    """The exact numbers are still there."""
    path = write_blocks(logdir, [record(step, every=1) for step in range(4)])
    run = opened(logdir)
    entry = run._content.files[0].entries.view[0]
    data = bytearray(path.read_bytes())
    start = int(entry["offset"] + entry["ahead"])
    data[start : start + int(entry["sketches"])] = bytes([0xFF] * int(entry["sketches"]))
    path.write_bytes(data)
    view = run.bands(WEIGHT)
    assert np.isnan(view.quantiles).all()
    assert not np.isnan(view.statistics["std"]).any()
    assert 1 == run.details()["gaps"]


def test_lost_blocks_of_coarse_samples(logdir: Path) -> None:
    """Finer samples stand in for merged ones that were damaged."""
    writer = write(logdir, [record(step, every=2) for step in range(2400)], flush_every=7)
    run = opened(logdir)
    file = run._content.files[0]
    entries = file.entries.view
    coarse = [entry for entry in entries if entry["kind"] == 1 and entry["samples"] and entry["first"] > 500]
    path = Path(file.path)
    data = bytearray(path.read_bytes())
    data[int(coarse[0]["offset"]) + 9] ^= 1
    path.write_bytes(data)
    recorded = Recorded.of(logdir)
    view = opened(logdir).heat(Kind.WEIGHT, "std", columns=60)
    found = [
        recorded.samples(WEIGHT, first=low, last=high)
        for low, high in zip(view.first, view.last, strict=True)
    ]
    assert len(recorded.tensors[WEIGHT]) == sum(map(len, found))
    expected = [expected_statistic("std", samples) for samples in found]
    near = np.isclose(np.array(expected, np.float32), view.values[0], rtol=1e-5)
    assert np.count_nonzero(~near) <= 1  # a block of steps was in the same record as the coarse one
    assert writer.counters.dropped_samples == 0
