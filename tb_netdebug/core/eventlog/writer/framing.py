"""The framing of an event file (TFRecord): length and its checksum, payload and its checksum."""

from __future__ import annotations

import struct

import google_crc32c

HEADER_BYTES = 12
FOOTER_BYTES = 4
OVERHEAD_BYTES = HEADER_BYTES + FOOTER_BYTES

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
# Fixed by the format: TensorFlow masks the checksums of its record files with this number.
_MASK_DELTA = 0xA282EAD8


def mask(crc: int) -> int:
    """Return the stored form of a CRC32C, rotated and shifted, so that data may hold its own checksum."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def masked_crc(data: bytes) -> int:
    return mask(google_crc32c.value(data))


def frame(payload: bytes) -> bytes:
    """Return one record, ready to be appended to an event file."""
    length = _LENGTH.pack(len(payload))
    return b"".join(
        (length, _CHECKSUM.pack(masked_crc(length)), payload, _CHECKSUM.pack(masked_crc(payload)))
    )
