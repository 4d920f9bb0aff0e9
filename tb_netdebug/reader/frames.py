"""The records of one event file, also of a damaged one: what is whole is read, what is not is a gap."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tb_netdebug.writer.framing import FOOTER_BYTES, HEADER_BYTES, OVERHEAD_BYTES, mask, masked_crc

# Longer records are taken for damage. A length is the one number of the file that could make us allocate.
MAX_PAYLOAD_BYTES = 1 << 28
_FIRST_SCAN_BYTES, _SCAN_BYTES = 1 << 12, 1 << 20


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole record; both checksums were right."""

    offset: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.offset + OVERHEAD_BYTES + len(self.payload)


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that hold no whole record.

    `reason` is "header" or "payload" for damage, "tail" where the file ends within a record: written at this
    very moment, or cut off by a crash or a copy.
    """

    offset: int
    size: int
    reason: str

    @property
    def end(self) -> int:
        return self.offset + self.size


def read_frames(path: Path, *, start: int = 0) -> Iterator[Frame | Gap]:
    """Everything from `start` to the end the file has when this is called, in order and without overlaps.

    Raises OSError. To go on later, start at the end of the last frame.
    """
    with path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        yield from _FrameReader(file, end).frames(start)


class _FrameReader:
    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file = file
        self._end = end
        # A file made of right headers with wrong payloads could make us read it over and over.
        self._patience_bytes = 8 * end + MAX_PAYLOAD_BYTES

    def frames(self, offset: int) -> Iterator[Frame | Gap]:
        while offset < self._end:
            found = self._frame_at(offset) or self._gap_at(offset)
            yield found
            offset = found.end

    def _frame_at(self, offset: int) -> Frame | None:
        length = self._length_at(offset)
        if length is None or offset + OVERHEAD_BYTES + length > self._end:
            return None
        body = self._read(offset + HEADER_BYTES, length + FOOTER_BYTES)
        payload, checksum = body[:length], int.from_bytes(body[length:], "little")
        if len(body) != length + FOOTER_BYTES or masked_crc(payload) != checksum:
            self._patience_bytes -= len(body)
            return None
        return Frame(offset, payload)

    def _gap_at(self, offset: int) -> Gap:
        """What lies from here to the next whole record, or to the end."""
        length = self._length_at(offset)
        if length is None:
            reason = "tail" if self._end - offset < HEADER_BYTES else "header"
        else:
            after = offset + OVERHEAD_BYTES + length
            reason = "payload" if after <= self._end else "tail"
            # The length is right and something whole follows: the damage is within this record.
            if after == self._end or (after < self._end and self._frame_at(after) is not None):
                return Gap(offset, after - offset, reason)
        found = self._search(offset + 1)
        if found < self._end and reason == "tail":
            reason = "payload"  # its end was lost, others were written after it
        return Gap(offset, found - offset, reason)

    def _length_at(self, offset: int) -> int | None:
        header = self._read(offset, HEADER_BYTES)
        if len(header) < HEADER_BYTES or masked_crc(header[:8]) != int.from_bytes(header[8:], "little"):
            return None
        length = int.from_bytes(header[:8], "little")
        return length if length <= MAX_PAYLOAD_BYTES else None

    def _search(self, offset: int) -> int:
        """The next offset with a whole record, or the end of the file."""
        size = _FIRST_SCAN_BYTES  # the next record is mostly near, and there may be many gaps
        while self._end - offset > OVERHEAD_BYTES:
            window = self._read(offset, size)
            size = min(4 * size, _SCAN_BYTES)
            for candidate in header_offsets(window):
                if self._frame_at(offset + candidate) is not None:
                    return offset + candidate
                if self._patience_bytes < 0:
                    return self._end
            if len(window) <= HEADER_BYTES:
                break
            offset += len(window) - HEADER_BYTES + 1
        return self._end

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(min(size, self._end - offset))


def header_offsets(window: bytes) -> list[int]:
    """Where 12 bytes look like a header: a length that is possible, followed by its checksum."""
    data = np.frombuffer(window, np.uint8)
    count = len(data) - HEADER_BYTES + 1
    if count <= 0:
        return []
    words = [_little_endian(data, start, count) for start in (0, 4, 8)]
    possible = np.flatnonzero((words[1] == 0) & (words[0] > 0) & (words[0] <= MAX_PAYLOAD_BYTES))
    expected = _masked_crc_of_lengths(words[0][possible])
    return [int(offset) for offset in possible[expected == words[2][possible]]]


def _little_endian(data: NDArray[np.uint8], start: int, count: int) -> NDArray[np.uint32]:
    word = np.zeros(count, np.uint32)
    for byte in range(4):
        word |= data[start + byte : start + byte + count].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _masked_crc_of_lengths(lengths: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """The checksums of lengths below 2^32, all at once: a CRC is linear, so four tables of bytes suffice."""
    crc = np.full(len(lengths), google_crc32c.value(bytes(8)), np.uint32)
    for byte, table in enumerate(_TABLES):
        crc ^= table[(lengths >> np.uint32(8 * byte)) & np.uint32(0xFF)]
    rotated: NDArray[np.uint32] = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    rotated += np.uint32(mask(0))
    return rotated


def _tables() -> list[NDArray[np.uint32]]:
    """For each of the lower four bytes of a length, what each of its values changes in the checksum."""
    places = [[number << 8 * byte for number in range(256)] for byte in range(4)]
    zero = google_crc32c.value(bytes(8))
    return [
        np.array([google_crc32c.value(length.to_bytes(8, "little")) ^ zero for length in place], np.uint32)
        for place in places
    ]


_TABLES = _tables()
