"""Columns out of many blocks at once: C and its twin give what the decoders of records give."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.eventlog.reader.scanner import SAMPLE, Native, Twin
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import decode_block, encode_block
from tb_netdebug.core.records.detail import DetailLevels, DetailRecord, decode_detail, encode_detail
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats.packed import BINS, Summary
from tests.support.event_files import native_reader
from tests.support.record_cases import RECORDS, packed_summaries, training

ALL_KINDS = sum(1 << kind for kind in Kind)
TRAINING, _ = training(20)
Message = tuple[bytes, int, int, int]


@pytest.fixture(params=["native", "twin"])
def reader(request: pytest.FixtureRequest) -> Native:
    """The C reader, then its twin."""
    return native_reader() if request.param == "native" else Twin()


def step_message(records: Sequence[StepRecord]) -> Message:
    """The unpacked columns of a block, with what its envelope says of rows, samples and sketches."""
    block = pb.StepBlock.FromString(encode_block(records))
    columns = zstandard.ZstdDecompressor().decompress(block.columns) if len(block.columns) > 9 else b""
    return columns, block.steps, block.samples, len(block.sketches)


def detail_message(records: Sequence[DetailRecord]) -> Message:
    block = pb.DetailBlock.FromString(encode_detail(records))
    return (
        zstandard.ZstdDecompressor().decompress(block.columns),
        block.rows,
        block.samples,
        len(block.sketches),
    )


def details(records: Sequence[StepRecord]) -> list[DetailRecord]:
    levels = DetailLevels(factor=2, depth=1)
    return [done for record in records for done in levels.add(record)] + levels.flush()


def stored(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def bits(values: object) -> list[int]:
    return np.asarray(values, np.float64).view(np.int64).tolist()


def test_steps_of_a_training(reader: Native) -> None:
    """Rows, values and what is missing, over several blocks."""
    messages = [step_message(TRAINING[at : at + 5]) for at in range(0, 20, 5)]
    columns, rows = [m[0] for m in messages], [m[1] for m in messages]
    owners, steps, times, measured, values, present, damaged = reader.step_rows(
        columns, rows, [b"loss", b"none", b"lr/0"]
    )
    assert [at // 5 for at in range(20)] == np.frombuffer(owners, np.uint32).tolist()
    assert [r.step for r in TRAINING] == np.frombuffer(steps, np.int64).tolist()
    assert [r.wall_time for r in TRAINING] == np.frombuffer(times).tolist()
    table = np.frombuffer(values).reshape(3, 20)
    assert [r.scalars["loss"] for r in TRAINING] == table[0].tolist()
    assert np.isnan(table[1]).all()
    assert [[1] * 20, [0] * 20, [1] * 20] == np.frombuffer(present, np.uint8).reshape(3, 20).tolist()
    assert ([1] * 20, []) == (list(measured), damaged)


@given(records=st.lists(RECORDS, min_size=1, max_size=6))
def test_any_steps(records: list[StepRecord]) -> None:
    """Every bit of any records, as the decoder has it, from C and its twin."""
    columns, rows, samples, sketches = step_message(records)
    block = decode_block(encode_block(records))
    names = [stored(name) for name in block.scalars]
    for reader in (native_reader(), Twin()):
        _, steps, times, measured, values, present, damaged = reader.step_rows([columns], [rows], names)
        assert [] == damaged
        assert [r.step for r in records] == np.frombuffer(steps, np.int64).tolist()
        assert bits(block.wall_times) == np.frombuffer(times, np.int64).tolist()
        assert [bool(r.scalars) for r in records] == [bool(flag) for flag in measured]
        expected = [bits(column.values) for column in block.scalars.values()]
        assert expected == np.frombuffer(values, np.int64).reshape(len(names), rows).tolist()
        flags = [column.present.tolist() for column in block.scalars.values()]
        assert flags == np.frombuffer(present, np.bool_).reshape(len(names), rows).tolist()
        check_samples(reader, [(columns, rows, samples, sketches)], block.samples, is_detail=False)


@given(records=st.lists(RECORDS, min_size=1, max_size=6))
def test_any_details(records: list[StepRecord]) -> None:
    """The same for coarser levels."""
    made = details(records)
    if not made:
        return
    message = detail_message(made)
    block = decode_detail(encode_detail(made))
    names = [stored(name) for name in block.scalars]
    for reader in (native_reader(), Twin()):
        _, frame, ranges, present, damaged = reader.detail_rows([message[0]], [message[1]], names)
        assert [] == damaged
        columns = (block.first_steps, block.last_steps, block.first_times, block.last_times, block.steps)
        words = [column.view(np.int64).tolist() for column in columns]
        assert words == np.frombuffer(frame, np.int64).reshape(5, message[1]).tolist()
        table = np.frombuffer(ranges, np.int64).reshape(len(names), 9, message[1])
        there = np.frombuffer(present, np.bool_).reshape(len(names), message[1])
        for at, column in enumerate(block.scalars.values()):
            assert column.present.tolist() == there[at].tolist()
            fields = (
                column.count, column.nan, column.pos_inf, column.neg_inf,
                column.min, column.max, column.sum, column.first, column.last,
            )  # fmt: skip
            expected = [field.view(np.int64)[column.present].tolist() for field in fields]
            assert expected == table[at][:, there[at]].tolist()
        check_samples(reader, [message], block.samples, is_detail=True)


def check_samples(reader: Native, messages: list[Message], table, *, is_detail: bool) -> None:
    columns, rows, samples, sketches = ([m[part] for m in messages] for part in range(4))
    data, series, damaged = reader.sample_rows(columns, rows, samples, sketches, is_detail, ALL_KINDS, None)
    found = np.frombuffer(data, SAMPLE)
    assert [] == damaged
    assert list(dict.fromkeys((int(s.kind), stored(s.name)) for s in table.series)) == series
    names = [(int(s.kind), stored(s.name)) for s in table.series]
    assert [names[at] for at in table.series_index] == [series[at] for at in found["series"]]
    assert table.headers.tobytes() == found["header"].tobytes()
    units = [table.units(at) for at in range(len(table))]
    assert [-1 if unit is None else unit.count for unit in units] == found["units"].tolist()
    active = [0 if unit is None else int.from_bytes(unit.active, "little").bit_count() for unit in units]
    assert active == found["active"].tolist()
    assert np.cumsum(found["sketch_bytes"]).tolist() == (found["sketch"] + found["sketch_bytes"]).tolist()


def test_samples_of_some_kinds_or_of_one_name(reader: Native) -> None:
    """What is not asked for is left out; the steps are those of the rows."""
    columns, rows, samples, sketches = step_message(TRAINING[:3])
    name = b"encoder.layers.1.linear.weight"
    data, series, _ = reader.sample_rows(
        [columns], [rows], [samples], [sketches], False, 1 << Kind.GRADIENT | 1 << Kind.ACTIVATION, name
    )
    found = np.frombuffer(data, SAMPLE)
    assert [(int(Kind.GRADIENT), name)] == series
    assert [(0, 0, 1), (1, 1, 1), (2, 2, 1)] == found[["first", "last", "merged"]].tolist()
    expected = [
        Summary.unpack(sample.summary).max
        for record in TRAINING[:3]
        for sample in record.samples
        if sample.series == Series(Kind.GRADIENT, name.decode())
    ]
    assert expected == found["header"]["max"].tolist()


def test_names(reader: Native) -> None:
    """Scalars and series in the order in which they appear, each once."""
    records = [
        StepRecord(0, 0.0, {"b": 1.0}, [Sample(Series(Kind.WEIGHT, "w"), TRAINING[0].samples[0].summary)]),
        StepRecord(1, 0.0, {"a": 1.0, "\ud800": 2.0}),
    ]
    messages = [step_message(records[:1]), step_message(records), (b"\x07", 1, 1, 1)]
    scalars, series = reader.names_of([m[0] for m in messages], False)
    assert [b"b", b"a", stored("\ud800")] == scalars
    assert [(int(Kind.WEIGHT), b"w")] == series
    assert ([b"loss"], []) == reader.names_of([detail_message(details(plain(4)))[0]], True)


def plain(count: int) -> list[StepRecord]:
    return [StepRecord(step, 0.0, {"loss": float(step)}) for step in range(count)]


def test_a_damaged_block_among_others(reader: Native) -> None:
    """It is named, and the others are read."""
    good = step_message(plain(3))[0]
    owners, steps, *_, damaged = reader.step_rows([good, good[:-1], b"\xff", good], [3, 3, 3, 3], [b"loss"])
    assert [1, 2] == damaged
    assert [0] * 3 + [3] * 3 == np.frombuffer(owners, np.uint32).tolist()
    assert [0, 1, 2] * 2 == np.frombuffer(steps, np.int64).tolist()


def test_a_claim_of_rows_that_are_not_there(reader: Native) -> None:
    """Nothing is allocated for a number alone."""
    good = step_message(plain(3))[0]
    for rows in (2, 4, 1 << 20, (1 << 32) - 1):
        assert [0] == reader.step_rows([good], [rows], [b"loss"])[-1]
        assert [0] == reader.detail_rows([good], [rows], [b"loss"])[-1]
        assert [0] == reader.sample_rows([good], [rows], [(1 << 32) - 1], [0], False, ALL_KINDS, None)[-1]


@given(seed=st.integers(0, 2**32 - 1), is_detail=st.booleans())
def test_changed_messages(seed: int, is_detail: bool) -> None:
    """Of messages that nobody wrote both make the same: numbers, or a damaged block."""
    rng = random.Random(seed)
    records = TRAINING[:4]
    records[0].samples[0].units = Units(9, b"\1\1")
    columns, rows, samples, sketches = (
        detail_message(details(records)) if is_detail else step_message(records)
    )
    changed = bytearray(columns)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed))
        changed[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, changed[at] ^ 1 << rng.randrange(8)])
    rows += rng.choice([0, 0, 0, 1])
    samples += rng.choice([0, 0, 0, 1, -1])
    names = [b"loss", b"lr/0", stored("time/step")]
    outcomes = []
    for reader in (native_reader(), Twin()):
        read_rows = reader.detail_rows if is_detail else reader.step_rows
        data = bytes(changed)
        outcomes.append(
            (
                read_rows([data, columns], [rows, rows], names),
                reader.sample_rows([data], [rows], [samples], [sketches], is_detail, ALL_KINDS, None),
                reader.names_of([data, columns], is_detail),
            )
        )
    assert outcomes[0] == outcomes[1]


@given(
    packed=st.lists(st.tuples(packed_summaries() | st.binary(max_size=120), st.integers(0, 2)), max_size=6)
)
def test_tally(packed: list[tuple[bytes, int]]) -> None:
    """Counts are added up bin by bin; what is no summary is left out."""
    places = np.array([place for _, place in packed], np.int64).tobytes()
    summaries = [*(data for data, _ in packed)]
    native = native_reader().tally(summaries, places, 3)
    assert Twin().tally(summaries, places, 3) == native
    expected = np.zeros((3, BINS))
    for data, place in packed:
        try:
            summary = Summary.unpack(data)
        except ValueError:
            continue
        expected[place, summary.bins] += summary.counts
    assert expected.tobytes() == native


def test_wrong_arguments_of_the_c_reader() -> None:
    """They are refused before anything is read."""
    native = native_reader()
    with pytest.raises(ValueError, match="one number for each block"):
        native.step_rows([b""], [], [])
    with pytest.raises(TypeError):
        native.step_rows(["text"], [1], [])  # type: ignore[list-item]
    with pytest.raises(OverflowError):
        native.step_rows([b""], [-1], [])
    with pytest.raises(ValueError, match="one place"):
        native.tally([b""], b"", 1)
