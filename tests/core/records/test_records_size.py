"""How many bytes a fully sampled step takes, beside TensorBoard's own histograms of the same tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import histogram

from tb_netdebug.core.records.block import encode_block
from tb_netdebug.core.records.step import Kind, Series
from tests.support.record_cases import Tensor, training

FRAME_BYTES = 16  # TFRecord: length, its checksum, the checksum of the data
PROMISED_RATIO = 30


def summary_writer_bytes(steps: Sequence[Mapping[Series, Tensor]]) -> int:
    """What `SummaryWriter.add_histogram` writes for them, events and frames included."""
    from tensorboard.compat.proto.event_pb2 import Event

    total = 0
    for number, step in enumerate(steps):
        for series, tensor in step.items():
            tag = f"{Kind(series.kind).name.lower()}/{series.name}"
            summary = histogram(tag, tensor, default_bins)
            total += FRAME_BYTES + Event(wall_time=1.7e9, step=number, summary=summary).ByteSize()
    return total


default_bins: list[float] = []


@pytest.fixture(autouse=True, scope="module")
def bins_of_summary_writer(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The bins that SummaryWriter takes unless told otherwise."""
    with SummaryWriter(str(tmp_path_factory.mktemp("runs"))) as writer:
        default_bins.extend(writer.default_bins)


@pytest.mark.parametrize("step_count", [1, 12], ids=["one step a block", "many steps a block"])
def test_promise(step_count: int) -> None:
    """At least 30 times fewer bytes, with scalars, header numbers, unit bitmaps and names all counted."""
    records, steps = training(step_count)
    ours = len(encode_block(records)) + FRAME_BYTES
    assert PROMISED_RATIO * ours <= summary_writer_bytes(steps)


@pytest.mark.parametrize(("step_count", "limit"), [(1, 240), (12, 170)])
def test_bytes_of_a_sample(step_count: int, limit: int) -> None:
    """All included, a tensor takes few bytes, also where names have to be paid for by a single step."""
    records, _ = training(step_count)
    samples = sum(len(record.samples) for record in records)
    assert len(encode_block(records)) <= limit * samples
