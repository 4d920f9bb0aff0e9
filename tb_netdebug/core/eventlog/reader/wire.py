"""Protobuf as it lies in a file: fields one after the other, without making objects of them.

The specification of `wire.h`; both take the same bytes for well-formed.
"""

from __future__ import annotations

from collections.abc import Iterator

MOST_VARINT_BYTES = 10
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Field = tuple[int, int, int, int]


class Malformed(ValueError):  # noqa: N818 - it says what is wrong as it is
    """No message of any kind."""


def fields(data: bytes, at: int, end: int) -> Iterator[Field]:
    """Number, type, and of bytes their start and end, of anything else its value twice."""
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
    """The last of each field of bytes."""
    return {number: data[at:end] for number, kind, at, end in fields(data, 0, len(data)) if kind == BYTES}


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """The number and where it ends; what has more than 64 bits loses the highest ones, as everywhere."""
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
