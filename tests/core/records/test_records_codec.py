"""The codec of sketches, in C and in plain Python."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.records import codec_twin
from tests.support.record_cases import packed_summaries, training

LIMIT = 1 << 24

ROWS = st.lists(st.tuples(packed_summaries(), st.booleans()), max_size=5)


def native_codec() -> ModuleType:
    try:
        return importlib.import_module("tb_netdebug.core.records._codec")
    except ImportError as error:
        pytest.fail(f"There is no C codec ({error}): see build/logs/wheel.log after `make test`")


@pytest.fixture(params=["native", "twin"])
def codec(request: pytest.FixtureRequest) -> ModuleType:
    """The C codec, then its twin."""
    return native_codec() if request.param == "native" else codec_twin


def realistic(step_count: int) -> tuple[list[bytes], bytes]:
    """Summaries grouped by series, and where the series begin."""
    records, _ = training(step_count)
    rows = [[record.samples[at].summary for record in records] for at in range(len(records[0].samples))]
    return [summary for row in rows for summary in row], bytes([1] + [0] * (step_count - 1)) * len(rows)


def outcome(codec: ModuleType, *arguments: object) -> object:
    try:
        return codec.decode(*arguments, LIMIT)
    except ValueError:
        return "damaged"


def test_nothing(codec: ModuleType) -> None:
    """No rows give no bytes."""
    assert (b"", b"", b"") == codec.encode([], b"")
    assert [] == codec.decode(b"", b"", b"", b"", LIMIT)


@given(rows=ROWS)
def test_round_trip(rows: list[tuple[bytes, bool]]) -> None:
    """Any packed summaries come back bit for bit, and both codecs give the same bytes for them."""
    summaries, fresh = [row[0] for row in rows], bytes(row[1] for row in rows)
    coded = codec_twin.encode(summaries, fresh)
    assert coded == native_codec().encode(summaries, fresh)
    headers, lengths, stream = coded
    assert summaries == codec_twin.decode(headers, lengths, fresh, stream, LIMIT)
    assert summaries == native_codec().decode(headers, lengths, fresh, stream, LIMIT)


def test_realistic_rows() -> None:
    """Both codecs give the same bytes for the tensors of a training, fewer than 130 for each."""
    summaries, fresh = realistic(4)
    coded = native_codec().encode(summaries, fresh)
    assert coded == codec_twin.encode(summaries, fresh)
    assert len(coded[2]) < 130 * len(summaries)


def test_an_unchanged_tensor_costs_one_byte(codec: ModuleType) -> None:
    """A frozen weight is stored once."""
    summary = realistic(1)[0][0]
    _, lengths, _ = codec.encode([summary] * 3, b"\1\0\0")
    assert b"\1\0\0\0" * 2 == lengths[4:]


@given(data=st.data())
def test_damaged_rows(data: st.DataObject) -> None:
    """Of changed bits both codecs make the same: other summaries, or one clear error."""
    summaries, fresh = realistic(2)
    headers, lengths, stream = native_codec().encode(summaries, fresh)
    places = data.draw(st.lists(st.integers(0, 8 * len(stream) - 1), min_size=1, max_size=8))
    changed = int.from_bytes(stream, "little") ^ sum(1 << place for place in set(places))
    stream = changed.to_bytes(len(stream), "little")
    native = outcome(native_codec(), headers, lengths, fresh, stream)
    assert native == outcome(codec_twin, headers, lengths, fresh, stream)


@given(stream=st.binary(max_size=400), cuts=st.lists(st.integers(0, 400), max_size=4))
def test_any_bytes(stream: bytes, cuts: list[int]) -> None:
    """Both codecs make the same of bytes that no encoder wrote."""
    ends = [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    lengths = b"".join((b - a).to_bytes(4, "little") for a, b in zip([0, *ends], ends, strict=False))
    arguments = bytes(80 * len(ends)), lengths, bytes([1] + [0] * (len(ends) - 1)), stream
    assert outcome(native_codec(), *arguments) == outcome(codec_twin, *arguments)


@pytest.mark.parametrize(
    "summary",
    [
        b"",
        bytes(79),
        bytes(80) + b"\x01",  # a gap without a count
        bytes(80) + b"\x01\x00",  # an empty bin
        bytes(80) + b"\x80\x00\x01",  # not the shortest form
        bytes(80) + b"\x80\x20\x01",  # bin 4096
        bytes(80) + b"\xff\x1f\x01\x00\x01",  # a bin after the last
        bytes(80) + b"\x01" + b"\xff" * 9 + b"\x02",  # more than 64 bits
        bytes(80) + b"\x01\xff",  # cut off
    ],
)
def test_no_packed_summary(codec: ModuleType, summary: bytes) -> None:
    """What could not come back the same is refused."""
    with pytest.raises(ValueError, match="item 1 is not a packed summary"):
        codec.encode([bytes(80), summary], b"\1\0")


@pytest.mark.parametrize(
    ("lengths", "stream"),
    [
        (b"\5\0\0\0", b"1234"),  # longer than what is there
        (b"\2\0\0\0", b"1234"),  # bytes left over
        (b"\xff\xff\xff\xff", b"1234"),
        ((1 << 17).to_bytes(4, "little"), bytes(1 << 17)),  # longer than any row
    ],
)
def test_wrong_lengths(codec: ModuleType, lengths: bytes, stream: bytes) -> None:
    """Row lengths that do not fit their bytes are refused."""
    with pytest.raises(ValueError, match="damaged"):
        codec.decode(bytes(80), lengths, b"\1", stream, LIMIT)


def test_wrong_columns(codec: ModuleType) -> None:
    """Columns of different lengths are refused before anything is read."""
    with pytest.raises(ValueError, match="number of rows"):
        codec.decode(bytes(81), bytes(4), b"\1", b"", LIMIT)
    with pytest.raises(ValueError, match="fresh"):
        codec.encode([bytes(80)], b"")


def test_repeated_rows_are_bounded(codec: ModuleType) -> None:
    """A byte a row stands for a whole sketch, so the unpacked size has a limit."""
    summary, _ = realistic(1)
    headers, lengths, stream = codec.encode([summary[0]] * 50, bytes([1] + [0] * 49))
    with pytest.raises(ValueError, match="damaged"):
        codec.decode(headers, lengths, bytes([1] + [0] * 49), stream, 10_000)
