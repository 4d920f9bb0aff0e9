"""Levels of detail: exact, bounded, and small enough to draw a long run from."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import UnsupportedVersion, encode_block
from tb_netdebug.core.records.detail import (
    DetailBlocks,
    DetailLevels,
    DetailRecord,
    ScalarRange,
    decode_detail,
    encode_detail,
)
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats import kernel
from tb_netdebug.core.stats.packed import Summary
from tests.support.record_cases import RECORDS, packed_of

WEIGHT, ACTIVATION = Series(Kind.WEIGHT, "layer.weight"), Series(Kind.ACTIVATION, "layer")


def details(records: Sequence[StepRecord], **options: int) -> list[DetailRecord]:
    """All that the levels hand out, the end of the run included."""
    levels = DetailLevels(**options)
    return [done for record in records for done in levels.add(record)] + levels.flush()


def bits_of(record: DetailRecord) -> object:
    """Everything in a record, comparable bit by bit."""
    numbers = record.level, record.first_step, record.last_step, record.steps
    times = struct.pack("<2d", record.first_time, record.last_time)
    scalars = {name: range_bits(part) for name, part in record.scalars.items()}
    return *numbers, times, scalars, record.samples


def range_bits(part: ScalarRange) -> object:
    values = part.min, part.max, part.sum, part.first, part.last
    return part.count, part.nan, part.pos_inf, part.neg_inf, struct.pack("<5d", *values)


def long_run(step_count: int) -> list[StepRecord]:
    """Two scalars a step, of which one is sometimes missing or not finite; two tensors every eighth step."""
    rng = np.random.default_rng(0)
    losses = (5 / (1 + np.arange(step_count) / 500) + rng.normal(0, 0.1, step_count)).tolist()
    odd = {3: math.nan, 5: math.inf, 7: -math.inf}
    summaries = [packed_of(rng.normal(0, 0.1 + i / 50, 2000).astype(np.float32)) for i in range(40)]
    records = []
    for step, loss in enumerate(losses):
        record = StepRecord(step, 1e9 + step / 8, {"loss": loss})
        if step % 10:
            record.scalars["norm"] = odd.get(step % 1000, loss * loss)
        if step % 8 == 0:
            units = Units(12, bytes([1 << (step // 8 % 7), 0]))
            record.samples.append(Sample(WEIGHT, summaries[step // 8 % 40]))
            record.samples.append(Sample(ACTIVATION, summaries[step // 80 % 40], units))
        records.append(record)
    return records


def expected_ranges(records: Sequence[StepRecord], name: str, level: int) -> list[ScalarRange]:
    """Each bucket of 16**level steps, told from the steps themselves."""
    size = 16**level
    ranges = []
    for start in range(0, len(records) - size + 1, size):
        values = [record.scalars[name] for record in records[start : start + size] if name in record.scalars]
        finite = [value for value in values if math.isfinite(value)]
        total = sum_by_levels(records[start : start + size], name)
        infinities = values.count(math.inf), values.count(-math.inf)
        nan = len(values) - len(finite) - sum(infinities)
        extremes = min(finite, default=math.nan), max(finite, default=math.nan)
        ranges.append(ScalarRange(len(values), nan, *infinities, *extremes, total, values[0], values[-1]))
    return ranges


def sum_by_levels(records: Sequence[StepRecord], name: str) -> float:
    """Sixteen terms at a time, as each level adds up the one below."""
    terms = [record.scalars.get(name, 0.0) for record in records]
    terms = [term if math.isfinite(term) else 0.0 for term in terms]
    while len(terms) > 1:
        terms = [added(terms[at : at + 16]) for at in range(0, len(terms), 16)]
    return terms[0]


def added(terms: Sequence[float]) -> float:
    total = 0.0
    for term in terms:
        total += term
    return total


def test_a_long_run() -> None:
    """50 000 steps: less than 1/16 of the bytes draws all of it, and equals what the steps themselves say."""
    records = long_run(50_000)
    full = sum(len(encode_block(records[at : at + 60])) for at in range(0, len(records), 60))
    blocks = DetailBlocks()
    payloads = [done for record in records for done in blocks.add([record])] + blocks.finish()
    read = [
        record for level, payload in payloads for record in decode_detail(payload).records() if level == 2
    ]
    assert sum(len(payload) for level, payload in payloads if level == 2) < full / 16
    assert sum(len(payload) for _, payload in payloads) < full / 2
    assert (49_999, 50_000) == (read[-1].last_step, sum(record.steps for record in read))
    for name in ("loss", "norm"):
        got = [range_bits(record.scalars[name]) for record in read[:-1]]
        assert [range_bits(part) for part in expected_ranges(records, name, 2)] == got


def test_tensors_are_merged() -> None:
    """A merged sample holds the values of all its parts, and the units that were active in any of them."""
    records = long_run(2048)
    merged = [one for record in details(records) for one in record.samples if record.level == 2]
    [weights, activations] = (
        [one for one in merged if one.sample.series == series] for series in (WEIGHT, ACTIVATION)
    )
    sampled = records[::8]
    assert [(0, 2040, 256)] == [(one.first_step, one.last_step, one.merged) for one in weights]
    parts = [Summary.unpack(record.samples[0].summary) for record in sampled]
    total = Summary.unpack(weights[0].sample.summary)
    assert sum(part.count for part in parts) == total.count
    assert (min(part.min for part in parts), max(part.max for part in parts)) == (total.min, total.max)
    counts = np.zeros(4096, np.uint64)
    for part in parts:
        counts[part.bins] += part.counts
    assert counts[total.bins].tolist() == total.counts.tolist()
    assert counts.sum() == total.counts.sum()
    assert Units(12, bytes([0x7F, 0])) == activations[0].sample.units


def test_first_level_of_tensors() -> None:
    """Sixteen samples become one, however many steps lie between them."""
    records = long_run(1024)
    merged = [one for record in details(records) for one in record.samples if record.level == 1]
    weights = [one for one in merged if one.sample.series == WEIGHT]
    expected = [
        kernel.merge([record.samples[0].summary for record in records[start : start + 128 : 8]])
        for start in range(0, 1024, 128)
    ]
    assert expected == [one.sample.summary for one in weights]
    assert [(start, start + 120, 16) for start in range(0, 1024, 128)] == [
        (one.first_step, one.last_step, one.merged) for one in weights
    ]


def test_memory_is_bounded() -> None:
    """What waits does not grow with the length of the run."""
    levels = DetailLevels(factor=4, depth=3)
    for record in long_run(3000):
        levels.add(record)
    assert len(levels._steps) < 4
    assert all(len(rows) < 4 for rows in levels._rows)
    assert all(len(parts) < 4 for level in levels._tensors for parts in level._parts.values())
    assert all(len(level.ready) < 4 for level in levels._tensors)


def test_the_end_of_a_run() -> None:
    """Incomplete records are handed out at the end, but none that would tell no more than the level below."""
    records = [StepRecord(step, float(step), {"loss": float(step)}) for step in range(16 * 2 + 5)]
    records[36].samples.append(Sample(WEIGHT, packed_of(np.ones(3, np.float32))))
    rows = [(record.level, record.first_step, record.last_step, record.steps) for record in details(records)]
    assert [(1, 0, 15, 16), (1, 16, 31, 16), (1, 32, 36, 5), (2, 0, 36, 37)] == rows
    assert [] == details(records[:1])
    assert not any(record.samples for record in details(records))


def test_samples_complete_without_a_record() -> None:
    """At the end a record of no steps carries the samples for which there is no other."""
    sample = Sample(WEIGHT, packed_of(np.ones(3, np.float32)))
    records = [StepRecord(step, 0.0, {}, [sample] * (step > 1)) for step in range(4)]
    last = details(records, factor=4)[-1]
    assert (1, 2, 3, 0) == (last.level, last.first_step, last.last_step, last.steps)
    assert [2] == [one.merged for one in last.samples]
    assert [bits_of(last)] == [bits_of(record) for record in decode_detail(encode_detail([last])).records()]


@given(records=st.lists(RECORDS, max_size=9))
def test_round_trip(records: list[StepRecord]) -> None:
    """Detail records of any steps come back bit for bit."""
    for record in details(records, factor=2, depth=2):
        again = decode_detail(encode_detail([record], rank=3)).records()
        assert [bits_of(record)] == [bits_of(one) for one in again]


@given(values=st.lists(st.floats(), min_size=1, max_size=20), cut=st.integers(1, 19))
def test_merged_ranges(values: list[float], cut: int) -> None:
    """Two ranges merged tell the same as one range of all the values, up to the order of the sum."""
    whole = ScalarRange.of(values)
    parts = [ScalarRange.of(part) for part in (values[:cut], values[cut:]) if part]
    merged = ScalarRange.merged(parts)
    assert repr((whole.count, whole.nan, whole.pos_inf, whole.neg_inf, whole.first, whole.last)) == repr(
        (merged.count, merged.nan, merged.pos_inf, merged.neg_inf, merged.first, merged.last)
    )
    assert (whole.min, whole.max) == (merged.min, merged.max) or not whole.finite


def test_one_level_a_block() -> None:
    """Records of different levels, or none at all, make no block."""
    make: Callable[[int], DetailRecord] = lambda level: DetailRecord(level, 0, 0, 0.0, 0.0, 1)  # noqa: E731
    for records in ([], [make(1), make(2)]):
        with pytest.raises(ValueError, match="one level"):
            encode_detail(records)


def test_a_newer_version_is_refused() -> None:
    """The message says what to do."""
    with pytest.raises(UnsupportedVersion, match=r"detail block has format version 2.*upgrade tb_netdebug"):
        decode_detail(pb.DetailBlock(version=2).SerializeToString())
