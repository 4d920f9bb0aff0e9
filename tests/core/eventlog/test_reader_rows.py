"""Samples that the flight recorder gives out late belong to steps that are stored already."""

from __future__ import annotations

import numpy as np

from tb_netdebug.core.eventlog.reader.run import join, rows_of_steps
from tb_netdebug.core.records.block import decode_block, encode_block
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats import kernel

WEIGHT = Series(Kind.WEIGHT, "w")


def sample(value: float) -> Sample:
    values = np.array([value], np.float32)
    return Sample(WEIGHT, kernel.summarize([(values.ctypes.data, 1, 0)], 1)[0])


def test_a_late_sample_joins_the_row_of_its_step() -> None:
    """No step is there twice, and the sample stands where its scalars are."""
    first = [StepRecord(step, 10.0 + step, {"loss": float(step)}) for step in range(3)]
    late = [StepRecord(1, 11.0, {}, [sample(5.0)]), StepRecord(3, 13.0, {"loss": 3.0}, [sample(6.0)])]
    columns = join([decode_block(encode_block(first)), decode_block(encode_block(late))])
    assert [0, 1, 2, 3] == columns.steps.tolist()
    assert [10.0, 11.0, 12.0, 13.0] == columns.wall_times.tolist()
    assert [0.0, 1.0, 2.0, 3.0] == columns.scalars["loss"].values.tolist()
    assert [0, 1, 2, 3] == columns.scalars["loss"].rows.tolist()
    assert [1, 3] == columns.tensors[WEIGHT].rows.tolist()
    assert [5.0, 6.0] == [summary.max for summary in columns.tensors[WEIGHT].summaries()]


def test_a_resumed_training_keeps_both_of_its_steps() -> None:
    """A step that was measured again is another row; a late sample belongs to the newer one."""
    steps = np.array([5, 6, 5, 5])
    homes, kept = rows_of_steps(steps, np.array([True, True, True, False]))
    assert [True, True, True, False] == kept.tolist()
    assert [0, 1, 2, 2] == homes.tolist()


def test_a_sample_without_its_step_keeps_a_row() -> None:
    """The block with the scalars may be lost; the sample is not."""
    homes, kept = rows_of_steps(np.array([7, 7]), np.array([False, False]))
    assert [True, False] == kept.tolist()
    assert [0, 0] == homes.tolist()
