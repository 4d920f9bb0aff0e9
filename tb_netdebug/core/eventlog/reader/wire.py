"""Walks the protobuf fields in a buffer without creating message objects.

The specification of `native/wire.h`: both accept the same bytes as well-formed. Used by the twins.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST_VARINT_BYTES = 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Field = tuple[int, int, int, int]


class Malformed(ValueError):  # noqa: N818 - it says what is wrong as it is
    """The bytes are not a protobuf message of any kind."""


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield number, type, and two values of each field: start and end of bytes, otherwise the value twice."""
    while at < end:
        key, at = varint(data, at, end)
        number, kind = key >> 3, key & 7
        if number == 0 or key >> 32:
            raise Malformed
        if kind == BYTES:
            size, at = varint(data, at, end)
            if size > end - at:
                raise Malformed
            yield number, kind, at, at + size
            at += size
        elif kind == VARINT:
            value, at = varint(data, at, end)
            yield number, kind, value, value
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
            if size > end - at:
                raise Malformed
            value = int.from_bytes(data[at : at + size], "little")
            at += size
            yield number, kind, value, value
        else:
            raise Malformed


def byte_fields(data: bytes) -> dict[int, bytes]:
    """Return the fields of bytes by number; the last one wins."""
    return {number: data[at:end] for number, kind, at, end in fields(data, 0, len(data)) if kind == BYTES}


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number and where it ends; bits above the 64th are dropped, as every decoder does."""
    value = 0
    for shift in range(0, 7 * MOST_VARINT_BYTES, 7):
        if at >= end:
            raise Malformed
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & ((1 << 64) - 1), at
    raise Malformed


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
