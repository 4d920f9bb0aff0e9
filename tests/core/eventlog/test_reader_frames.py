"""Event files with damage: every record that is whole is read, and every lost byte is told."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tb_netdebug.core.eventlog.reader.frames import MAX_PAYLOAD_BYTES, Gap, LogRecord, read_frames
from tb_netdebug.core.eventlog.writer.framing import frame, masked_crc

PAYLOADS = [bytes([number]) * (10 + 37 * number) for number in range(1, 21)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events.netdebug"


def offsets(payloads: list[bytes]) -> list[int]:
    found, offset = [], 0
    for payload in payloads:
        found.append(offset)
        offset += len(payload) + 16
    return found


def whole() -> bytearray:
    return bytearray(b"".join(map(frame, PAYLOADS)))


def read(path: Path, data: bytes) -> tuple[list[bytes], list[Gap]]:
    path.write_bytes(data)
    found = list(read_frames(path))
    assert [0, *(item.end for item in found[:-1])] == [item.offset for item in found] or not found
    return (
        [item.payload for item in found if isinstance(item, LogRecord)],
        [item for item in found if isinstance(item, Gap)],
    )


def test_known_bytes_of_a_record() -> None:
    """The framing is TensorFlow's: this is the first record of a file that TensorBoard wrote."""
    version = bytes.fromhex("09000000000000f83f1a0d627261696e2e4576656e743a32")
    assert struct.pack("<Q", 24) + bytes.fromhex("a37f4b22") == frame(version)[:12]
    assert struct.pack("<I", masked_crc(version)) == frame(version)[-4:]


def test_an_intact_file(path: Path) -> None:
    """All records in order and no gap."""
    assert (PAYLOADS, []) == read(path, whole())


def test_an_empty_file(path: Path) -> None:
    """A file that was just made has neither records nor gaps."""
    assert ([], []) == read(path, b"")


def test_reading_on_from_the_end_of_a_frame(path: Path) -> None:
    """The end of a frame is where a later read starts."""
    path.write_bytes(whole())
    third = list(read_frames(path))[2]
    assert PAYLOADS[3:] == [
        item.payload for item in read_frames(path, start=third.end) if isinstance(item, LogRecord)
    ]


def test_a_flipped_bit_in_a_payload_costs_that_record(path: Path) -> None:
    """The others are read, and the gap has exactly the record's bytes."""
    data = whole()
    start = offsets(PAYLOADS)[9]
    data[start + 20] ^= 1
    payloads, gaps = read(path, data)
    assert PAYLOADS[:9] + PAYLOADS[10:] == payloads
    assert [Gap(start, len(PAYLOADS[9]) + 16, "payload")] == gaps


def test_a_wrong_length_costs_that_record(path: Path) -> None:
    """The next record is found by its header."""
    data = whole()
    start = offsets(PAYLOADS)[9]
    data[start] ^= 1
    payloads, gaps = read(path, data)
    assert PAYLOADS[:9] + PAYLOADS[10:] == payloads
    assert [Gap(start, len(PAYLOADS[9]) + 16, "header")] == gaps


def test_a_page_of_zeros(path: Path) -> None:
    """What a power loss leaves behind: the records it covers are lost, the others are read."""
    payloads = [random.Random(number).randbytes(1000) for number in range(20)]
    data = bytearray(b"".join(map(frame, payloads)))
    data[4096:8192] = bytes(4096)
    read_payloads, gaps = read(path, data)
    assert payloads[:4] + payloads[9:] == read_payloads
    assert [Gap(4 * 1016, 5 * 1016, "payload")] == gaps


def test_zeros_at_the_end(path: Path) -> None:
    """A file that was made longer than what was written to it."""
    data = whole()
    payloads, gaps = read(path, data + bytes(5000))
    assert PAYLOADS == payloads
    assert [Gap(len(data), 5000, "header")] == gaps


@pytest.mark.parametrize("lost", [1, 4, 5, 700, 756, 765])
def test_a_torn_tail(path: Path, lost: int) -> None:
    """The last record is cut anywhere: all others are read, the rest is a tail."""
    data = whole()[:-lost]
    last = offsets(PAYLOADS)[19]
    payloads, gaps = read(path, data)
    assert PAYLOADS[:19] == payloads
    assert [Gap(last, len(data) - last, "tail")] == gaps


def test_records_after_a_torn_one(path: Path) -> None:
    """Someone appended to a file that had a torn tail."""
    start = offsets(PAYLOADS)[9]
    data = whole()[: start + 50] + whole()[offsets(PAYLOADS)[10] :]
    payloads, gaps = read(path, data)
    assert PAYLOADS[:9] + PAYLOADS[10:] == payloads
    assert [Gap(start, 50, "payload")] == gaps


@pytest.mark.parametrize("length", [MAX_PAYLOAD_BYTES + 1, 1 << 40, (1 << 64) - 1])
def test_a_right_header_with_an_insane_length(path: Path, length: int) -> None:
    """Twelve such bytes bring TensorBoard's servers down; here they are a gap of twelve bytes."""
    header = struct.pack("<Q", length)
    poison = header + struct.pack("<I", masked_crc(header))
    middle = offsets(PAYLOADS)[10]
    payloads, gaps = read(path, whole()[:middle] + poison + whole()[middle:])
    assert PAYLOADS == payloads
    assert [Gap(middle, 12, "header")] == gaps


def test_a_large_but_possible_length_allocates_no_more_than_the_file_has(path: Path) -> None:
    """The length is compared with the size of the file before anything is read."""
    header = struct.pack("<Q", MAX_PAYLOAD_BYTES)
    payloads, gaps = read(path, header + struct.pack("<I", masked_crc(header)) + whole())
    assert PAYLOADS == payloads
    assert [Gap(0, 12, "payload")] == gaps


def test_a_file_of_headers_alone_is_given_up_in_time(path: Path) -> None:
    """Each header is right and its payload is wrong: reading costs a bounded multiple of the file's size."""
    size = 1 << 16
    header = struct.pack("<Q", size - 100)
    data = (header + struct.pack("<I", masked_crc(header))) * (size // 6)
    payloads, gaps = read(path, data)
    assert [] == payloads
    assert len(data) == sum(gap.size for gap in gaps)


def test_text_instead_of_records(path: Path) -> None:
    """Any other file is one gap."""
    data = b"no event file at all\n" * 100
    assert ([], [Gap(0, len(data), "header")]) == read(path, data)


@given(data=st.data())
def test_random_damage_costs_the_damaged_records_only(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever bytes change, each record without a changed byte is read, and nothing else is."""
    sizes = data.draw(st.lists(st.integers(1, 300), min_size=3, max_size=12))
    seed = data.draw(st.integers(0, 1000))
    payloads = [random.Random(seed + number).randbytes(size) for number, size in enumerate(sizes)]
    content = bytearray(b"".join(map(frame, payloads)))
    start = data.draw(st.integers(0, len(content) - 1))
    size = data.draw(st.integers(1, 200))
    damaged = content[start : start + size]
    content[start : start + size] = bytes(byte ^ 0xFF for byte in damaged)
    intact = [
        payload
        for payload, offset in zip(payloads, offsets(payloads), strict=True)
        if offset + len(payload) + 16 <= start or offset >= start + len(damaged)
    ]
    found, gaps = read(tmp_path_factory.mktemp("damage") / "file", content)
    assert intact == found
    assert len(content) == sum(len(payload) + 16 for payload in found) + sum(gap.size for gap in gaps)
