"""Finds bytes that look like the header of a record, for the scanner in plain Python."""

from __future__ import annotations

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.writer.framing import HEADER_BYTES, mask

# A longer record is taken for damage. The length is the one number in the file that decides how much is
# allocated.
MAX_PAYLOAD_BYTES = 64 << 20


def header_offsets(window: bytes) -> list[int]:
    """Return where 12 bytes look like a header: a possible length, followed by its checksum."""
    if len(window) < HEADER_BYTES:
        return []
    # A header may begin at any byte: four views of 32-bit words, each a byte later, cover them all.
    found = [_offsets_from(window, start) for start in range(4)]
    return sorted(offset for offsets in found for offset in offsets)


def _offsets_from(window: bytes, start: int) -> list[int]:
    """Return those at every fourth byte from `start` on, found in one array operation."""
    count = (len(window) - start) // 4
    if count < 3:
        return []
    words = np.frombuffer(window, "<u4", count, start)
    low, high, checksum = words[:-2], words[1:-1], words[2:]
    # The longest payload is far below 2^32, so the upper half of a length is zero.
    possible = np.flatnonzero((high == 0) & (low != 0))
    possible = possible[low[possible] <= MAX_PAYLOAD_BYTES]
    expected = _masked_crc_of_lengths(low[possible])
    places = possible[expected == checksum[possible]]
    offsets: list[int] = (4 * places + start).tolist()
    return offsets


def _masked_crc_of_lengths(lengths: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return the masked checksums of lengths below 2^32.

    A CRC is linear, so four tables of bytes suffice for all of them at once.
    """
    crc = np.full(len(lengths), google_crc32c.value(bytes(8)), np.uint32)
    for byte, table in enumerate(_TABLES):
        crc ^= table[(lengths >> np.uint32(8 * byte)) & np.uint32(0xFF)]
    rotated: NDArray[np.uint32] = (crc >> np.uint32(15)) | (crc << np.uint32(17))
    rotated += np.uint32(mask(0))
    return rotated


def _tables() -> list[NDArray[np.uint32]]:
    """Return for each of the lower four bytes of a length what each of its values changes in the checksum."""
    places = [[number << 8 * byte for number in range(256)] for byte in range(4)]
    zero = google_crc32c.value(bytes(8))
    return [
        np.array([google_crc32c.value(length.to_bytes(8, "little")) ^ zero for length in place], np.uint32)
        for place in places
    ]


_TABLES = _tables()
