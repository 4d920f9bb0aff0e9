"""What stands where in an event file: C and its twin, on whole, damaged and hostile bytes."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.reader.events_twin import OTHER
from tb_netdebug.core.eventlog.reader.scan_twin import BAD_CONTENT, BAD_HEADER, BAD_PAYLOAD
from tb_netdebug.core.eventlog.reader.scanner import ENTRY, GAP, POINT, Native, Twin
from tb_netdebug.core.eventlog.writer.framing import frame
from tb_netdebug.core.eventlog.writer.values import histogram, opening, payload, scalar
from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.block import encode_block
from tb_netdebug.core.records.detail import DetailBlocks
from tests.support.event_files import blocks, damaged, framed, header_of, native_reader
from tests.support.record_cases import training

PATIENCE = 1 << 30
RECORDS, _ = training(40)


@pytest.fixture(params=["native", "twin"])
def reader(request: pytest.FixtureRequest) -> Native:
    """The C scanner, then its twin."""
    return native_reader() if request.param == "native" else Twin()


def scan(
    reader: Native, data: bytes, *, at: int = 0, base: int = 0, beyond: int | None = None, ours: bool = True
):
    beyond = len(data) if beyond is None else beyond
    entries, points, gaps, tags, *rest = reader.scan(data, at, base, beyond, -1, 0, PATIENCE, ours)
    tables = [np.frombuffer(part, dtype) for part, dtype in ((entries, ENTRY), (points, POINT), (gaps, GAP))]
    return *tables, tags, rest


def mixed_file() -> bytes:
    """Blocks of steps and details, other payloads, and the mirror's values between them."""
    levels = DetailBlocks()
    data = frame(opening(1.0)) + framed([payload("graph", 0, 1.0, b"graph")])
    for at in range(0, len(RECORDS), 8):
        part = RECORDS[at : at + 8]
        values = [payload("steps", at, 2.0, encode_block(part, rank=3)), scalar("loss", at, 2.0, 1.0)]
        values += [payload(f"detail/{level}", at, 2.0, block) for level, block in levels.add(part)]
        data += framed(values)
    values = [payload(f"detail/{level}", 40, 2.0, block) for level, block in levels.finish()]
    return data + framed([*values, payload("run", 40, 3.0, b"{}"), payload("detail/99", 40, 3.0, b"odd")])


def test_entries_of_a_whole_file(reader: Native) -> None:
    """Each block has an entry with what its envelope says; the mirror's values have none."""
    data = mixed_file()
    entries, points, gaps, tags, rest = scan(reader, data, base=1000)
    assert (0, 0, [len(data), -1, 0, PATIENCE, 0]) == (len(points), len(gaps), rest)
    steps = entries[entries["kind"] == 0]
    assert [(at, at + 7, 8, 8 * 12, 3, 1) for at in range(0, 40, 8)] == [
        tuple(int(entry[name]) for name in ("first", "last", "rows", "samples", "rank", "version"))
        for entry in steps
    ]
    assert [1, 2] == sorted(set(entries["kind"].tolist()) - {0, OTHER})
    others = entries[entries["kind"] == OTHER]
    assert [b"graph", b"run", b"detail/99"] == [tags[place] for place in others["first"]]
    assert [b"graph", b"{}", b"odd"] == [
        data[start - 1000 : start - 1000 + size]
        for start, size in zip(others["offset"], others["length"], strict=True)
    ]


def test_where_the_parts_of_a_block_are(reader: Native) -> None:
    """The compressed columns and the sketches can be read without the rest."""
    data = mixed_file()
    entry = scan(reader, data)[0][1]
    block = pb.StepBlock.FromString(encode_block(RECORDS[:8], rank=3))
    start = int(entry["offset"])
    assert block.columns == data[start : start + int(entry["length"])]
    start += int(entry["ahead"])
    assert block.sketches == data[start : start + int(entry["sketches"])]


def test_numbers_of_others(reader: Native) -> None:
    """Simple values, rank-0 tensors of both widths in every form, and histograms by their place."""
    shape, table = (
        pb.TensorShapeProto(),
        pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=n) for n in (2, 3)]),
    )
    vector = pb.TensorShapeProto(dim=[pb.TensorShapeProto.Dim(size=1)])
    values = [
        pb.Summary.Value(tag="simple", simple_value=1.5),
        pb.Summary.Value(
            tag="listed", tensor=pb.TensorProto(dtype=pb.DT_FLOAT, tensor_shape=shape, float_val=[2.5])
        ),
        pb.Summary.Value(
            tag="packed",
            tensor=pb.TensorProto(
                dtype=pb.DT_DOUBLE, tensor_shape=shape, tensor_content=struct.pack("<d", 3.5)
            ),
        ),
        pb.Summary.Value(
            tag="wide", tensor=pb.TensorProto(dtype=pb.DT_DOUBLE, tensor_shape=shape, double_val=[4.5])
        ),
        pb.Summary.Value(tag="text", tensor=pb.TensorProto(dtype=pb.DT_STRING, string_val=[b"no number"])),
        pb.Summary.Value(
            tag="vector", tensor=pb.TensorProto(dtype=pb.DT_FLOAT, tensor_shape=vector, float_val=[1.0])
        ),
        pb.Summary.Value(tag="buckets", tensor=pb.TensorProto(dtype=pb.DT_DOUBLE, tensor_shape=table)),
        pb.Summary.Value(tag="histo", histo=pb.HistogramProto(min=1.0)),
        pb.Summary.Value(tag="simple", simple_value=float("nan")),
    ]
    event = pb.Event(wall_time=9.0, step=-4, summary=pb.Summary(value=values)).SerializeToString()
    data = frame(event)
    entries, points, gaps, tags, _ = scan(reader, data, ours=False)
    assert (0, 0) == (len(entries), len(gaps))
    assert [b"simple", b"listed", b"packed", b"wide", b"buckets", b"histo"] == tags
    assert [1.5, 2.5, 3.5, 4.5] == points["value"][:4].tolist()
    assert np.isnan(points["value"][6])
    assert {(-4, 9.0)} == set(zip(points["step"].tolist(), points["time"].tolist(), strict=True))
    assert [0, 1, 2, 3, 4, 5, 0] == points["tag"].tolist()
    parts = [data[p["offset"] : p["offset"] + p["length"]] for p in points if p["length"]]
    assert values[6:8] == [pb.Summary.Value.FromString(part) for part in parts]


def test_an_unpacked_list_of_numbers(reader: Native) -> None:
    """Protobuf allows numbers one by one, too; of several the last counts."""
    tensor = b"\x08\x01" + b"\x2d" + struct.pack("<f", 7.0) + b"\x2d" + struct.pack("<f", 8.0)
    value = b"\x0a\x01t" + b"\x42" + bytes([len(tensor)]) + tensor
    summary = b"\x0a" + bytes([len(value)]) + value
    event = b"\x2a" + bytes([len(summary)]) + summary
    points = scan(reader, frame(event), ours=False)[1]
    assert [8.0] == points["value"].tolist()


def test_a_record_that_is_no_event(reader: Native) -> None:
    """Its checksum is right and its bytes are no message: it is lost by itself, with all that was in it."""
    good = framed([payload("steps", 0, 1.0, encode_block(RECORDS[:2]))])
    half = pb.Event(summary=pb.Summary(value=[pb.Summary.Value(tag="netdebug/steps")])).SerializeToString()
    bad = frame(half + b"\x2a\xff")
    entries, _, gaps, _, _ = scan(reader, good + bad + good)
    assert 2 == len(entries)
    assert [(len(good), len(good) + len(bad), BAD_CONTENT)] == gaps.tolist()


def test_gaps_say_where_and_why(reader: Native) -> None:
    """A flipped bit costs its record, in the payload as in the length."""
    record = framed([payload("steps", 0, 1.0, encode_block(RECORDS[:2]))])
    data = bytearray(record * 6)
    data[len(record) + 40] ^= 1
    data[3 * len(record)] ^= 1
    entries, _, gaps, _, _ = scan(reader, bytes(data))
    assert 4 == len(entries)
    size = len(record)
    assert [(size, 2 * size, BAD_PAYLOAD), (3 * size, 4 * size, BAD_HEADER)] == gaps.tolist()


def test_an_end_within_a_record(reader: Native) -> None:
    """What may come yet is no gap, and the scan says from where on nothing whole was found."""
    record = framed([payload("steps", 0, 1.0, encode_block(RECORDS[:2]))])
    entries, _, gaps, _, rest = scan(reader, record + record[:-1])
    assert (1, 0, len(record)) == (len(entries), len(gaps), rest[1])


def test_a_piece_that_ends_within_a_record_asks_for_more(reader: Native) -> None:
    """The file goes on behind the piece: it says from where on and how many bytes must be there at once."""
    record = framed([payload("steps", 0, 1.0, encode_block(RECORDS[:2]))])
    data = record * 3
    piece = data[: 2 * len(record) - 5]
    entries, _, gaps, _, (at, lost, _, _, need) = scan(reader, piece, beyond=len(data))
    assert (1, 0, len(record), -1, len(record)) == (len(entries), len(gaps), at, lost, need)


@pytest.mark.parametrize("length", [(1 << 26) + 1, 1 << 40, (1 << 64) - 1])
def test_a_poisoned_length(reader: Native, length: int) -> None:
    """A right header with a length that no record of ours has is a gap of twelve bytes."""
    record = framed([payload("steps", 0, 1.0, encode_block(RECORDS[:2]))])
    entries, _, gaps, _, _ = scan(reader, record + header_of(length) + record)
    assert 2 == len(entries)
    assert [(len(record), len(record) + 12)] == [(start, end) for start, end, _ in gaps.tolist()]


def test_right_headers_with_wrong_payloads_end_in_time(reader: Native) -> None:
    """Each claims nearly the whole file: only so many bytes are read in vain, then the rest is given up."""
    data = header_of(60000) * 6000
    *_, (at, lost, _, patience, _) = reader_state(reader, data, patience=1 << 20)
    assert patience < 0
    assert (len(data), 0) == (at, lost)


def reader_state(reader: Native, data: bytes, *, patience: int):
    *tables, at, lost, reason, left, need = reader.scan(data, 0, 0, len(data), -1, 0, patience, True)
    return *tables, (at, lost, reason, left, need)


@given(seed=st.integers(0, 2**32 - 1), ours=st.booleans())
def test_damage_is_the_same_for_both(seed: int, ours: bool) -> None:
    """Whatever is done to a file, C and its twin find the same in it."""
    data = damaged(mixed_file(), random.Random(seed))
    arguments = (data, 0, 0, len(data), -1, 0, 10 * len(data), ours)
    assert Twin().scan(*arguments) == native_reader().scan(*arguments)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(50, 20000))
def test_pieces_give_what_the_whole_gives(seed: int, size: int) -> None:
    """However a file is cut into pieces, the same is found in it, by both."""
    data = damaged(mixed_file(), random.Random(seed))
    whole = in_pieces(native_reader(), data, len(data))
    assert whole == in_pieces(native_reader(), data, size) == in_pieces(Twin(), data, size)


def in_pieces(reader: Native, data: bytes, size: int) -> tuple[list[object], list[object], int]:
    """Entries with the names of their tags, gaps, and from where on nothing whole was found."""
    entries: list[object] = []
    gaps: list[object] = []
    at, lost, reason, patience, need = 0, -1, 0, PATIENCE, 0
    while at < len(data):
        piece = data[at : at + max(size, need)]
        tables = reader.scan(piece, 0, at, len(data) - at, lost, reason, patience, True)
        for entry in np.frombuffer(tables[0], ENTRY):
            tag = tables[3][int(entry["first"])] if entry["kind"] == OTHER else b""
            entries.append((tag, entry.tolist() if not tag else (int(entry["offset"]), int(entry["length"]))))
        gaps += np.frombuffer(tables[2], GAP).tolist()
        stop, lost, reason, patience, need = tables[4:]
        if stop == 0 and need <= len(piece):
            break
        at += stop
    return entries, gaps, lost


@given(event=st.binary(max_size=200), ours=st.booleans())
def test_any_bytes_as_an_event(event: bytes, ours: bool) -> None:
    """Bytes that no writer wrote are read alike."""
    data = frame(event)
    arguments = (data, 0, 0, len(data), -1, 0, PATIENCE, ours)
    assert Twin().scan(*arguments) == native_reader().scan(*arguments)


@given(seed=st.integers(0, 2**32 - 1), ours=st.booleans())
def test_a_changed_event_with_a_right_checksum(seed: int, ours: bool) -> None:
    """An enemy can make the checksum right, too: both read the same, or lose the same record."""
    rng = random.Random(seed)
    inner = framed(
        [
            payload("steps", 1, 1.0, encode_block(RECORDS[:2])),
            scalar("a", 1, 1.0, 2.0),
            histogram("h", 1, 1.0, np.ones((2, 3))),
        ]
    )[12:-4]
    event = bytearray(inner)
    for _ in range(rng.randint(1, 3)):
        event[rng.randrange(min(len(event), 200) if rng.random() < 0.7 else len(event))] = rng.randrange(256)
    data = frame(bytes(event)) + frame(inner)
    arguments = (data, 0, 5, len(data), -1, 0, PATIENCE, ours)
    assert Twin().scan(*arguments) == native_reader().scan(*arguments)


def test_the_scanner_in_use_can_be_chosen() -> None:
    """C where it was built."""
    assert native_reader() is scanner.native


def test_what_lies_outside_is_refused() -> None:
    """A piece cannot be longer than the rest of its file."""
    with pytest.raises(ValueError, match="outside"):
        native_reader().scan(b"12345", 0, 0, 2, -1, 0, 1, True)


def test_many_small_gaps(reader: Native) -> None:
    """Every second record is damaged; each gap is found near its record."""
    record = blocks(RECORDS[:1], size=1)
    broken = bytearray(record)
    broken[0] ^= 1
    data = (record + bytes(broken)) * 50
    entries, _, gaps, _, rest = scan(reader, data)
    assert (50, 49) == (len(entries), len(gaps))
    assert len(data) - len(record) == rest[1]
