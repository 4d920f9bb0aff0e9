"""TensorBoard's own dashboards show what is mirrored, under both of its loaders."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.twin import summarize
from tests.support.streamed import wait_for
from tests.support.tensorboard_process import TensorBoard

STEPS = 120
LOADERS = {"rustboard": ["--load_fast=true"], "python": ["--load_fast=false"]}
WEIGHTS = np.random.default_rng(5).normal(0.0, 2.0, 5000).astype(np.float32)
CONSTANT = np.full(32, 0.25, np.float32)


def packed(array: np.ndarray[Any, Any]) -> bytes:
    return summarize([(array.ctypes.data, array.size, 0)], 1)[0]


def records() -> Iterator[StepRecord]:
    """Losses that end as NaN, a step that comes twice, one that goes back, and times that are no numbers."""
    samples = [
        Sample(Series(Kind.WEIGHT, "conv1.weight"), packed(WEIGHTS)),
        Sample(Series(Kind.GRADIENT, "conv1.bias"), packed(CONSTANT)),
        Sample(Series(Kind.GRADIENT, "sick"), packed(np.full(3, np.nan, np.float32))),
    ]
    for step in range(STEPS):
        scalars = {"loss": 10.0 / (step + 1), "lr/0": 0.1, "scalar/größe <b>": 3.5, "time/data": 0.5}
        if step >= STEPS - 2:
            scalars["loss"] = math.nan
        if step == 3:
            scalars["gradient_norm"] = 1e300
        yield StepRecord(
            step, math.nan if step % 10 == 5 else 1.6e9 + step, scalars, samples if step % 50 == 0 else []
        )
        if step in (7, 60):
            yield StepRecord(step, 1.6e9 + step, {"loss": -1.0})
            yield StepRecord(step - 5, 1.6e9 + step, {"loss": -2.0})


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A logdir with one run."""
    logdir = tmp_path_factory.mktemp("logs")
    writer = EventWriter(logdir / "run1", flush_secs=0.01)
    for number, record in enumerate(records()):
        writer.put(record)
        if number % 30 == 0:  # several blocks
            assert writer.flush()
    picture = np.zeros((2, 3, 3), np.uint8)
    picture[:, :, 0] = 255
    writer.image("attention", picture, step=4, wall_time=math.nan)
    writer.image("epoch", picture, step=4, wall_time=0.0)
    writer.image("attention", picture, step=4)
    writer.run_info(b"the run")
    writer.close()
    other_rank = EventWriter(logdir / "run1", rank=1)
    other_rank.put(StepRecord(0, 1.6e9, {"loss": 7.0}))
    other_rank.close()
    return logdir


@pytest.fixture(scope="module", params=sorted(LOADERS))
def board(request: pytest.FixtureRequest, recorded: Path) -> Iterator[TensorBoard]:
    """A TensorBoard that has loaded the run to its end: the picture was written last."""
    with TensorBoard("--logdir", str(recorded), *LOADERS[request.param]) as started:
        wait_for(lambda: has_loaded(started))
        yield started


def has_loaded(board: TensorBoard) -> bool:
    """Loading takes a moment, and until then there are errors, too."""
    tags = board.get("/data/plugin/images/tags")
    return tags.status == 200 and "attention" in tags.json().get("run1", {})


def test_there_is_one_run(board: TensorBoard) -> None:
    """The files of other ranks are no runs of their own."""
    assert ["run1"] == board.json("/data/runs")


def test_scalars_come_with_all_their_points(board: TensorBoard) -> None:
    """Each step once, float32 values, NaN as NaN, and times that are numbers."""
    points = board.json("/data/plugin/scalars/scalars", run="run1", tag="loss")
    assert list(range(STEPS)) == [step for _, step, _ in points]
    expected = np.float32([10.0 / (step + 1) for step in range(STEPS - 2)]).tolist()
    assert [*expected, "NaN", "NaN"] == [value for _, _, value in points]
    assert [1.6e9 + step - (step % 10 == 5) for step in range(STEPS)] == [time for time, _, _ in points]


def test_only_the_chosen_scalars_are_mirrored(board: TensorBoard) -> None:
    """The full record is in the blocks; names stay exactly as the user wrote them."""
    tags = board.json("/data/plugin/scalars/tags")["run1"]
    assert {"loss", "lr/0", "scalar/größe <b>", "gradient_norm"} == set(tags)
    assert [3.5] * STEPS == [
        p[2] for p in board.json("/data/plugin/scalars/scalars", run="run1", tag="scalar/größe <b>")
    ]


def test_what_float32_cannot_hold_is_infinite(board: TensorBoard) -> None:
    """The exact value is in the blocks."""
    ((_, step, value),) = board.json("/data/plugin/scalars/scalars", run="run1", tag="gradient_norm")
    assert (3, "Infinity") == (step, value)


def test_histograms_hold_every_finite_value(board: TensorBoard) -> None:
    """Buckets adjoin from the minimum to the maximum, and their counts are whole numbers."""
    assert {"weight/conv1.weight", "gradient/conv1.bias"} == set(
        board.json("/data/plugin/histograms/tags")["run1"]
    )
    ((_, step, buckets),) = board.json(
        "/data/plugin/histograms/histograms", run="run1", tag="weight/conv1.weight"
    )
    lefts, rights, counts = (list(column) for column in zip(*buckets, strict=True))
    assert (0, 5000.0) == (step, sum(counts))
    assert all(count == int(count) for count in counts)
    assert (lefts[1:], rights[-1]) == (rights[:-1], float(WEIGHTS.max()))
    assert float(WEIGHTS.min()) == lefts[0]
    below = sum(count for right, count in zip(rights, counts, strict=True) if right <= 0.0)
    assert abs(below - int((WEIGHTS <= 0.0).sum())) <= 5000 * 0.02


def test_a_constant_tensor_has_one_bucket(board: TensorBoard) -> None:
    """As TensorBoard's own writer draws it."""
    ((_, _, buckets),) = board.json(
        "/data/plugin/histograms/histograms", run="run1", tag="gradient/conv1.bias"
    )
    assert [[-0.25, 0.75, 32.0]] == buckets


def test_pictures_are_png_files(board: TensorBoard) -> None:
    """One for a step, with its size."""
    (epoch,) = board.json("/data/plugin/images/images", run="run1", tag="epoch", sample=0)
    assert 0.0 == epoch["wall_time"]
    (image,) = board.json("/data/plugin/images/images", run="run1", tag="attention", sample=0)
    content = board.body(f"/data/plugin/images/individualImage?{image['query']}")
    assert (4, b"\x89PNG", (3, 2)) == (image["step"], content[:4], struct.unpack_from(">II", content, 16))


def test_the_summary_of_a_mirror_is_the_record(recorded: Path) -> None:
    """What the dashboards leave out is there for our own reader."""
    run = read_run(recorded / "run1")
    columns = run.main
    assert ([], STEPS + 4, b"the run") == (run.losses, len(columns.steps), run.latest["run"])
    (norm,) = columns.scalars["gradient_norm"].values
    assert 1e300 == norm
    (sick,) = [tensor for series, tensor in columns.tensors.items() if series.name == "sick"]
    assert [3, 3, 3] == [summary.nan for summary in sick.summaries()]
    first = next(columns.tensors[Series(Kind.WEIGHT, "conv1.weight")].summaries())
    assert packed(WEIGHTS) == first.pack()
    assert isinstance(first, Summary)
