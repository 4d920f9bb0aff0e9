"""Runs as a whole: several files, several ranks, damage, and what is no run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tb_netdebug.core.eventlog.reader.run import list_runs, read_run
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.eventlog.writer.values import events, payload
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import UnsupportedVersion, encode_block
from tb_netdebug.core.records.detail import decode_detail
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.twin import summarize

SERIES = Series(Kind.GRADIENT, "layer")


def packed(*numbers: float) -> bytes:
    array = np.array(numbers, np.float32)
    return summarize([(array.ctypes.data, array.size, 0)], 1)[0]


def record(step: int) -> StepRecord:
    """A step with a scalar in every second one and a sample in every third one."""
    scalars = {"loss": float(step), **({"even": -float(step)} if step % 2 == 0 else {})}
    samples = [Sample(SERIES, packed(float(step), 1.0))] if step % 3 == 0 else []
    return StepRecord(step, 1000.0 + step, scalars, samples)


def write(run_dir: Path, steps: range, *, rank: int = 0, blocks: int = 4) -> Path:
    writer = EventWriter(run_dir, rank=rank, mirror=None)
    for number, step in enumerate(steps):
        writer.put(record(step))
        if number % (len(steps) // blocks) == 0:
            assert writer.flush()
    assert writer.flush()
    path = writer.path
    writer.close()
    assert path is not None
    return path


def test_columns_of_a_run_in_several_files(logdir: Path) -> None:
    """A resumed training goes on in a file of its own; they are read in the order in which they were made."""
    first, second = write(logdir, range(0, 20)), write(logdir, range(15, 40))
    run = read_run(logdir)
    steps = [*range(0, 20), *range(15, 40)]
    assert ([first, second], []) == (run.files, run.losses)
    assert (steps, [1000.0 + step for step in steps]) == (
        run.main.steps.tolist(),
        run.main.wall_times.tolist(),
    )
    even = run.main.scalars["even"]
    assert (
        [step for step in steps if step % 2 == 0]
        == run.main.steps[even.rows].tolist()
        == (-even.values).tolist()
    )
    tensor = run.main.tensors[SERIES]
    thirds = [step for step in steps if step % 3 == 0]
    assert thirds == run.main.steps[tensor.rows].tolist()
    assert [packed(float(step), 1.0) for step in thirds] == [summary.pack() for summary in tensor.summaries()]
    assert [max(1.0, step) for step in thirds] == tensor.headers["max"].tolist()


def test_ranks_are_kept_apart(logdir: Path) -> None:
    """Each has columns of its own; the run is what rank 0 wrote."""
    write(logdir, range(10))
    write(logdir, range(5, 12), rank=1)
    write(logdir, range(3), rank=12, blocks=1)
    run = read_run(logdir)
    assert {0: list(range(10)), 1: list(range(5, 12)), 12: [0, 1, 2]} == {
        rank: columns.steps.tolist() for rank, columns in run.ranks.items()
    }
    assert run.ranks[0] is run.main


def test_a_run_without_rank_0_has_empty_main_columns(logdir: Path) -> None:
    """It died before it wrote anything; the others are there."""
    write(logdir, range(3), rank=1, blocks=1)
    run = read_run(logdir)
    assert ([], [1], {".": logdir}) == (run.main.steps.tolist(), list(run.ranks), list_runs(logdir))


def test_details_and_the_newest_payload_of_each_kind(logdir: Path) -> None:
    """Coarser levels are there for each sixteen steps, the incomplete ones at the end."""
    writer = EventWriter(logdir)
    writer.graph(b"graph")
    writer.run_info(b"first")
    for step in range(300):
        writer.put(record(step))
    writer.run_info(b"second")
    writer.payload("findings", b"one")
    writer.close()
    run = read_run(logdir)
    assert {"graph": b"graph", "run": b"second", "findings": b"one"} == run.latest
    rows = [sum(int(decode_detail(data).steps.sum()) for data in run.details[level]) for level in (1, 2)]
    assert [300, 300] == rows


@pytest.mark.parametrize("damage", ["flip", "zeros", "tear"])
def test_damage_costs_the_blocks_that_it_hits(logdir: Path, damage: str) -> None:
    """All other steps are read, and the loss names file and bytes."""
    path = write(logdir, range(40), blocks=8)
    data = bytearray(path.read_bytes())
    whole = read_run(logdir).main.steps.tolist()
    middle = len(data) // 2
    if damage == "flip":
        data[middle] ^= 0x10
    elif damage == "zeros":
        data[middle : middle + 64] = bytes(64)
    else:
        del data[-30:]
    path.write_bytes(data)
    run = read_run(logdir)
    found = run.main.steps.tolist()
    assert list(range(40)) == whole
    assert (1, path) == (len(run.losses), run.losses[0].path)
    lost = set(whole) - set(found)
    assert found == [step for step in whole if step not in lost]
    assert len(lost) <= 5
    assert found == run.main.scalars["loss"].values.tolist()


def test_a_payload_that_is_no_block_is_a_loss(logdir: Path) -> None:
    """The record is whole, so its checksum is right; what is in it makes no sense."""
    path = write(logdir, range(10))
    (junk,), _ = events([payload("steps", 99, 1.0, b"no block")], ())
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(frame(junk))
    run = read_run(logdir)
    assert list(range(10)) == run.main.steps.tolist()
    assert [(size, len(frame(junk)))] == [(loss.gap.offset, loss.gap.size) for loss in run.losses]
    assert "not a NetDebug message" in run.losses[0].complaint


def test_a_newer_format_is_refused_with_one_sentence(logdir: Path) -> None:
    """It says what to do."""
    block = pb.StepBlock.FromString(encode_block([record(1)]))
    block.version = 1000
    (event,), _ = events([payload("steps", 1, 1.0, block.SerializeToString())], ())
    (logdir / "events.out.tfevents.0.netdebug").write_bytes(frame(event))
    with pytest.raises(UnsupportedVersion, match="upgrade tb_netdebug"):
        read_run(logdir)


def test_runs_are_listed_by_their_place(logdir: Path) -> None:
    """Folders of other tools are none, side folders belong to their run, and links are not followed."""
    for name in ("b/deep", "a", "a/eval"):
        write(logdir / name, range(2), blocks=1)
    write(logdir / "a", range(2), rank=1, blocks=1)
    (logdir / "other").mkdir()
    (logdir / "other" / "events.out.tfevents.1.host").write_bytes(b"")
    (logdir / "link").symlink_to(logdir / "a")
    assert ["a", "a/eval", "b/deep"] == list(list_runs(logdir))
    assert [] == list(list_runs(logdir / "other"))
    assert ["."] == list(list_runs(logdir / "a" / "plugins" / "netdebug"))


def test_a_linked_file_is_not_read(logdir: Path, tmp_path: Path) -> None:
    """Whoever may write to a logdir must not make us read something else."""
    elsewhere = write(tmp_path / "elsewhere", range(5))
    write(logdir, range(3), blocks=1)
    (logdir / "events.out.tfevents.0.netdebug").symlink_to(elsewhere)
    assert [0, 1, 2] == read_run(logdir).main.steps.tolist()
