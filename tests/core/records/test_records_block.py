"""Step blocks: everything comes back as it was."""

from __future__ import annotations

import importlib
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.records import codec_twin, samples
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import VERSION, UnsupportedVersion, decode_block, encode_block
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats.packed import Summary
from tests.support.record_cases import RECORDS, bits_of, packed_of, training


@pytest.fixture(params=["native", "twin"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The C codec in use, then its twin."""
    native = importlib.import_module("tb_netdebug.core.records._codec")
    monkeypatch.setattr(samples, "codec", native if request.param == "native" else codec_twin)
    return str(request.param)


@given(records=st.lists(RECORDS, max_size=5), rank=st.integers(0, 2**32 - 1))
def test_round_trip(records: list[StepRecord], rank: int) -> None:
    """Any records come back bit for bit, in their order."""
    block = decode_block(encode_block(records, rank=rank))
    assert rank == block.rank
    assert bits_of(records) == bits_of(block.records())


def test_a_training(codec: str) -> None:
    """A few realistic steps come back on both codecs."""
    records, _ = training(3)
    assert bits_of(records) == bits_of(decode_block(encode_block(records)).records())


def test_both_codecs_write_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a compiler was there does not show in a file."""
    records, _ = training(2)
    native = encode_block(records)
    monkeypatch.setattr(samples, "codec", codec_twin)
    assert native == encode_block(records)


def test_nan_keeps_its_payload() -> None:
    """A NaN of unusual bits, -0.0 and an absent scalar are three different things."""
    [odd] = struct.unpack("<d", bytes.fromhex("efbeadde0000f4ff"))
    records = [StepRecord(5, 1.0, {"loss": odd, "zero": -0.0}), StepRecord(3, 2.0, {"zero": 0.0})]
    block = decode_block(encode_block(records))
    assert [True, False] == block.scalars["loss"].present.tolist()
    assert "efbeadde0000f4ff" == block.scalars["loss"].values[:1].tobytes().hex()
    assert [True, False] == np.signbit(block.scalars["zero"].values).tolist()
    assert [5, 3] == block.steps.tolist()


def test_columns() -> None:
    """A reader gets at the numbers of one series without unpacking the others."""
    records, _ = training(3)
    block = decode_block(encode_block(records))
    table = block.samples
    series = table.series.index(Series(Kind.GRADIENT, "encoder.layers.1.linear.weight"))
    rows = table.rows_of(series)
    expected = [Summary.unpack(record.samples[5].summary) for record in records]
    assert [0, 1, 2] == table.row_index[rows].tolist()
    assert [summary.max for summary in expected] == table.headers["max"][rows].tolist()
    assert [summary.pack() for summary in expected] == table.packed(series)
    assert [summary.counts.tolist() for summary in expected] == [
        s.counts.tolist() for s in table.summaries(series)
    ]
    assert [series] * 3 == table.series_index[rows].tolist()
    assert table.units(rows.start) is None


def test_units() -> None:
    """The bitmap of an activation comes with its sample."""
    records, _ = training(1)
    table = decode_block(encode_block(records)).samples
    series = table.series.index(Series(Kind.ACTIVATION, "encoder.layers.0.linear"))
    units = table.units(table.rows_of(series).start)
    assert units == records[0].samples[3].units
    assert units is not None
    assert 60 == sum(byte.bit_count() for byte in units.active)


def test_the_outside_of_a_block() -> None:
    """Steps and sizes are known without unpacking the columns."""
    records = [StepRecord(7, 0.0), StepRecord(-2, math.inf), StepRecord(3, math.nan)]
    outside = pb.StepBlock.FromString(encode_block(records))
    assert (VERSION, -2, 7, 3, 0) == (
        outside.version, outside.first_step, outside.last_step, outside.steps, outside.samples,
    )  # fmt: skip


def test_a_newer_version_is_refused() -> None:
    """The message says what to do."""
    with pytest.raises(UnsupportedVersion, match=r"version 2.*up to 1: upgrade tb_netdebug"):
        decode_block(pb.StepBlock(version=2).SerializeToString())


def test_fields_to_come_are_skipped() -> None:
    """A later NetDebug may add what an older one need not know, such as findings."""
    records, _ = training(1)
    unknown = b"\xa2\x06\x03abc"  # field 100, three bytes
    assert bits_of(records) == bits_of(decode_block(encode_block(records) + unknown).records())


@pytest.mark.parametrize("units", [Units(9, b"\1"), Units(8, b"\1\2"), Units(0, b"\1")])
def test_a_bitmap_that_does_not_fit(units: Units) -> None:
    """Units without the bits for them are the caller's mistake."""
    sample = Sample(Series(Kind.TENSOR, "x"), packed_of(np.zeros(1, np.float32)), units)
    with pytest.raises(ValueError, match="units have no bitmap"):
        encode_block([StepRecord(0, 0.0, {}, [sample])])


def test_too_much_for_one_block() -> None:
    """What no reader would accept is not written."""
    records = [StepRecord(step, 0.0, {f"s{step}": 1.0}) for step in range(5000)]
    with pytest.raises(ValueError, match="use several"):
        encode_block(records)
