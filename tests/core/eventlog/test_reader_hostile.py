"""Files that somebody made to do harm: no crash, no hang, no memory without bound, and words for the user."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tb_netdebug.core.eventlog.reader import catalogue
from tb_netdebug.core.eventlog.reader.cells import cell_width
from tb_netdebug.core.eventlog.reader.errors import ReaderError
from tb_netdebug.core.eventlog.reader.followed_run import FollowedRun
from tb_netdebug.core.eventlog.reader.logdir import LogDir
from tb_netdebug.core.eventlog.writer.values import payload
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.columns import put_deltas, put_names
from tb_netdebug.core.records.run_info import encode_run_info
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tests.support.event_files import blocks, damaged, framed, write_blocks
from tests.support.record_cases import RECORDS
from tests.support.record_golden import GOLDEN
from tests.support.recorded import WEIGHT, opened, record, write

MEGABYTE = 1 << 20


def see_everything(run: FollowedRun) -> None:
    """Asks for each view; only a ReaderError may come of it."""
    views: list[Callable[[], object]] = [
        lambda: run.details(),
        run.graph,
        run.info,
        lambda: run.scalars(run.details()["scalars"], points=50),
        lambda: run.scalars(["loss"], first=-5, last=10**15, points=3),
        *(lambda kind=kind: run.heat(kind, "std", columns=20) for kind in Kind),
        lambda: run.heat(Kind.UPDATE, "ratio", columns=3000),
        *(lambda kind=kind: run.statistics_at(kind) for kind in Kind),
    ]
    for place in run.details()["series"][:5]:
        series = Series(Kind[place["kind"].upper()], place["name"])
        views += [
            lambda series=series: run.bands(series, columns=10),
            lambda series=series: run.histogram(series, first=0, last=10**9),
            lambda series=series: run.histograms(series, columns=5),
        ]
    for view in views:
        try:
            view()
        except ReaderError:
            continue
    json.dumps(run.details(), ensure_ascii=False).encode("utf-8")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file of a real writer, with details, mirror, graph and description."""
    folder = tmp_path_factory.mktemp("whole")
    writer = write(folder, [record(step) for step in range(300)], flush_every=20, close=False)
    writer.run_info(encode_run_info({"pid": 1}))
    writer.graph((GOLDEN / "records_v1" / "graph.bin").read_bytes())
    path = writer.path
    writer.close()
    assert path is not None
    return path.read_bytes()


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=60)
def test_damaged_files(tmp_path_factory: pytest.TempPathFactory, whole: bytes, seed: int) -> None:
    """Flipped bits, zeros, cuts, poisoned lengths, records in the wrong place: all that is left is shown."""
    folder = tmp_path_factory.mktemp("damaged")
    rng = random.Random(seed)
    (folder / "events.out.tfevents.1700000000.host.1.0.netdebug").write_bytes(damaged(whole, rng))
    if rng.random() < 0.3:
        (folder / "events.out.tfevents.1700000001.host.1.0.netdebug").write_bytes(damaged(whole, rng))
    see_everything(opened(folder))


@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(["steps", "detail"]))
@settings(max_examples=100)
def test_changed_blocks_with_right_checksums(
    tmp_path_factory: pytest.TempPathFactory, seed: int, kind: str
) -> None:
    """An enemy changes the recordings of every version within their blocks, before the checksums are made."""
    rng = random.Random(seed)
    data = (GOLDEN / "records_v1" / f"{kind}.bin").read_bytes()
    block = (pb.StepBlock if kind == "steps" else pb.DetailBlock).FromString(data)
    columns = bytearray(zstandard.ZstdDecompressor().decompress(block.columns))
    sketches = bytearray(block.sketches)
    for target in (columns, sketches):
        for _ in range(rng.randint(0, 3)):
            target[rng.randrange(len(target))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    block.columns, block.sketches = zstandard.compress(bytes(columns)), bytes(sketches)
    field = rng.choice(["first_step", "last_step", "samples", "rank", "version", "none"])
    if field != "none":
        setattr(block, field, rng.choice([0, 1, 3, 2**31 - 1]))
    envelope = bytearray(block.SerializeToString())
    if rng.random() < 0.3:
        envelope[rng.randrange(20)] = rng.randrange(256)
    name = "steps" if kind == "steps" else f"detail/{rng.choice([1, 2, 30])}"
    folder = tmp_path_factory.mktemp("changed")
    path = write_blocks(folder, [record(step) for step in range(20)])
    with path.open("ab") as file:
        file.write(framed([payload(name, 0, 1.0, bytes(envelope))]) * 2)
        file.write(blocks([record(step) for step in range(20, 24)]))
    run = opened(folder)
    see_everything(run)
    assert {0, 23} <= set(run.scalars(["loss"], points=10**4).scalars["loss"].step.tolist())


@given(records=st.lists(RECORDS, min_size=1, max_size=12))
@settings(max_examples=60)
def test_any_records(tmp_path_factory: pytest.TempPathFactory, records: list[StepRecord]) -> None:
    """Steps, times, names and numbers of every kind, in any order."""
    folder = tmp_path_factory.mktemp("any")
    write_blocks(folder, records, size=3)
    see_everything(opened(folder))


@given(data=st.binary(max_size=2000), name=st.sampled_from(["x.netdebug", "events.out.tfevents.1.host"]))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str) -> None:
    """A file of anything is a run without anything."""
    folder = tmp_path_factory.mktemp("bytes")
    (folder / name).write_bytes(data)
    see_everything(opened(folder))


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def block_of(columns: pb.StepColumns, **envelope: int) -> bytes:
    packed = zstandard.compress(columns.SerializeToString())
    return pb.StepBlock(**{"version": 1, **envelope}, columns=packed).SerializeToString()


def write_payloads(folder: Path, *payloads: bytes) -> None:
    path = write_blocks(folder, [record(step) for step in range(8)])
    with path.open("ab") as file:
        file.write(framed([payload("steps", 0, 1.0, data) for data in payloads]))


@pytest.mark.parametrize(("rows", "samples"), [(2**32 - 1, 0), (1 << 20, 1 << 20), (3, 2**32 - 1)])
def test_claims_of_many_rows(logdir: Path, rows: int, samples: int) -> None:
    """A number in an envelope alone allocates nothing."""
    steps = put_deltas(np.arange(100, 103))
    columns = pb.StepColumns(
        steps=steps, wall_times=steps, scalars=pb.ScalarColumns(names=put_names(["loss"]))
    )
    data = block_of(columns, first_step=100, last_step=102, steps=rows, samples=samples)
    write_payloads(logdir, *[data] * 20)
    assert peak_of(lambda: see_everything(opened(logdir))) < 40 * MEGABYTE


def test_blocks_that_unpack_to_gigabytes(logdir: Path) -> None:
    """A few bytes of a compressed file may be many gigabytes of zeros: they are not unpacked."""
    bomb = pb.StepBlock(
        version=1, first_step=100, last_step=102, steps=3, columns=zstandard.compress(bytes(200 * MEGABYTE))
    )  # fmt: skip
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(10 * MEGABYTE))
    other = pb.StepBlock(version=1, first_step=103, last_step=104, steps=3, columns=unsized)
    write_payloads(logdir, *[bomb.SerializeToString(), other.SerializeToString()] * 10)
    run = opened(logdir)
    assert peak_of(lambda: see_everything(run)) < 40 * MEGABYTE
    assert (8, True) == (len(run.scalars(["loss"]).scalars["loss"].step), run.details()["gaps"] > 0)


def test_many_big_blocks_are_read_a_few_at_a_time(logdir: Path) -> None:
    """Each is as big as a block may be; they are never all in memory."""
    count = MEGABYTE
    steps = put_deltas(np.arange(count) + 100)
    columns = pb.StepColumns(steps=steps, wall_times=steps)
    data = block_of(columns, first_step=100, last_step=100 + count - 1, steps=count)
    write_payloads(logdir, *[data] * 16)
    assert peak_of(lambda: opened(logdir, cache_bytes=20 * MEGABYTE).scalars(["loss"])) < 300 * MEGABYTE


def test_a_file_of_nothing_but_resumptions(logdir: Path) -> None:
    """Every block goes back: only the newest stretches are kept, and reading ends in time."""
    one = blocks([StepRecord(5, 1.0, {"loss": 1.0})]) + blocks([StepRecord(3, 1.0, {"loss": 2.0})])
    path = write_blocks(logdir, [])
    path.write_bytes(one * 5000)
    run = opened(logdir)
    assert [3.0, 5.0] == run.scalars(["loss"]).scalars["loss"].step.tolist()
    assert len(run._content._tracks[0][str(path)].stretches) < 1000


def test_a_gap_after_every_record(logdir: Path) -> None:
    """Only so many are listed; all are counted, and everything between them is read."""
    path = write_blocks(logdir, [])
    path.write_bytes(
        b"".join(blocks([StepRecord(step, 1.0, {"loss": 1.0})]) + b"junk" for step in range(3000))
    )
    os.utime(path, (1e9, 1e9))  # nothing more will come
    run = opened(logdir)
    details = run.details()
    assert (3000, 100, 3000) == (details["gaps"], len(details["gap_list"]), details["steps"])
    assert 3000 == run.scalars(["loss"], points=10**4).scalars["loss"].count.sum()


def test_long_and_odd_names(logdir: Path) -> None:
    """Any text is a name; what is no character is shown as such, and can still be asked for."""
    names = ["x" * 10_000, "\udcff", "</script>", "\u202eabc", "a\nb", "", "\x00"]
    samples = [Sample(Series(Kind.WEIGHT, name), record(0).samples[0].summary) for name in names]
    write_blocks(logdir, [StepRecord(0, 1.0, dict.fromkeys(names, 1.0), samples)])
    run = opened(logdir)
    heat = run.heat(Kind.WEIGHT, "std")
    assert len(names) == len(heat.names)
    for name in heat.names:
        assert 1 == len(run.bands(Series(Kind.WEIGHT, name)).first)
        assert 1 == len(run.scalars([name]).scalars)


def test_more_names_than_anybody_has(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many are remembered."""
    monkeypatch.setattr(catalogue, "MOST_NAMES", 100)
    write_blocks(logdir, [StepRecord(0, 1.0, {f"name{number}": 1.0 for number in range(500)})])
    assert 100 == len(opened(logdir).details()["scalars"])


def test_payloads_of_any_name_and_size(logdir: Path) -> None:
    """The newest of some names are remembered; what is too big or makes no sense is passed over."""
    values = [payload(f"name{number}", 0, 1.0, b"x") for number in range(5000)]
    values += [payload("graph", 0, 1.0, b"\xff" * 100), payload("run", 0, 1.0, b"[" * 200_000)]
    path = write_blocks(logdir, [record(0)])
    with path.open("ab") as file:
        file.write(framed(values))
    run = opened(logdir)
    see_everything(run)
    assert (None, {}) == (run.graph(), run.info())
    assert len(run._content.files[0].payloads) <= 1000


def test_the_cache_keeps_within_its_bound(logdir: Path) -> None:
    """However much is looked at, the unpacked blocks take no more than was allowed."""
    write(logdir, [record(step, every=1) for step in range(3000)], flush_every=10)
    limit = 200_000
    known = LogDir([("", str(logdir))], cache_bytes=limit)
    known.refresh()
    run = known.open(".")
    run.refresh()
    for first in range(0, 3000, 300):
        run.heat(Kind.WEIGHT, "std", first=first, last=first + 300)
        run.scalars(["loss"], first=first, last=first + 300)
        held = sum(len(data) for data in known.cache._entries.values())
        assert 0 < held <= known.cache.held_bytes <= limit
    run.bands(WEIGHT)
    assert known.cache.held_bytes <= limit


@pytest.mark.parametrize(
    ("first", "last", "most", "cells"),
    [
        (-867086410468, 1793184, 1, 2),
        (-1, 0, 1, 2),
        (-9, -2, 1, 1),
        (0, 10**12, 1, 1),
        (-(2**62), 2**62, 7, 7),
    ],
)
def test_cells_around_zero(first: int, last: int, most: int, cells: int) -> None:
    """A cell ends before zero, so one alone never covers steps on both sides; that is no reason to go on."""
    width = cell_width(first, last, most)
    assert last // width - first // width + 1 <= cells
