"""Decodes the records of an event file in plain Python: the specification of `native/events.h`.

Only the envelope of a block is read; the block stays compressed in the file until a view needs it. Used by
`scan_twin.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tb_netdebug.core.eventlog.reader.wire import BYTES, FIXED32, FIXED64, VARINT, Malformed, fields, signed

# The kinds of entries: steps are 0, levels of detail 1 to 30, and 31 is everything else.
STEPS, OTHER, MOST_LEVELS = 0, 31, 30
ENTRY = struct.Struct("<qqqIIIIIHBB")
POINT = struct.Struct("<qddqII")

_PREFIX = b"netdebug/"
_PLUGIN = b"netdebug"
_FLOAT, _DOUBLE = 1, 2


class RawValue(NamedTuple):
    """One summary value, as the places of its parts in the data."""

    tag: bytes
    plugin: bytes
    simple: float | None
    histogram: bool
    tensor: tuple[int, int] | None


class Events:
    """Collects the contents of the events in a piece of a file that starts at offset `base`.

    With `ours` it collects the entries of our blocks, otherwise the points that other programs wrote.
    """

    def __init__(self, data: bytes, base: int, ours: bool) -> None:
        self.data = data
        self.base = base
        self.ours = ours
        self.entries = bytearray()
        self.points = bytearray()
        self.tags: dict[bytes, int] = {}

    def take(self, start: int, end: int) -> bool:
        """Take the contents of an event; return False, and keep nothing, if the bytes are none."""
        entries, points = len(self.entries), len(self.points)
        try:
            self.summary_of(start, end)
        except Malformed:
            del self.entries[entries:]
            del self.points[points:]
            return False
        return True

    def summary_of(self, start: int, end: int) -> None:
        wall_time, step = 0.0, 0
        summary: tuple[int, int] | None = None
        for number, kind, value, stop in fields(self.data, start, end):
            # The field numbers of TensorFlow's Event: wall_time, step, summary.
            if number == 1 and kind == FIXED64:
                wall_time = struct.unpack("<d", value.to_bytes(8, "little"))[0]
            elif number == 2 and kind == VARINT:
                step = signed(value)
            elif number == 5 and kind == BYTES:
                summary = value, stop
        if summary is None:
            return
        for number, kind, value, stop in fields(self.data, *summary):
            if number == 1 and kind == BYTES:
                self.value(self.value_of(value, stop), step, wall_time, (value, stop))

    def value_of(self, start: int, end: int) -> RawValue:
        tag, plugin, simple, histogram, tensor = b"", b"", None, False, None
        for number, kind, value, stop in fields(self.data, start, end):
            if number == 1 and kind == BYTES:
                tag = self.data[value:stop]
            elif number == 2 and kind == FIXED32:
                simple = struct.unpack("<f", value.to_bytes(4, "little"))[0]
            elif number == 5 and kind == BYTES:
                histogram = True
            elif number == 8 and kind == BYTES:
                tensor = value, stop
            elif number == 9 and kind == BYTES:
                plugin = self.plugin_of(value, stop)
        return RawValue(tag, plugin, simple, histogram, tensor)

    def plugin_of(self, start: int, end: int) -> bytes:
        name = b""
        for number, kind, value, stop in fields(self.data, start, end):
            if number == 1 and kind == BYTES:
                for inner, inner_kind, inner_value, inner_stop in fields(self.data, value, stop):
                    if inner == 1 and inner_kind == BYTES:
                        name = self.data[inner_value:inner_stop]
        return name

    def value(self, found: RawValue, step: int, wall_time: float, place: tuple[int, int]) -> None:
        if not self.ours:
            self.foreign(found, step, wall_time, place)
        elif found.tag.startswith(_PREFIX) and found.plugin == _PLUGIN and found.tensor is not None:
            for number, kind, value, stop in fields(self.data, *found.tensor):
                if number == 8 and kind == BYTES:
                    self.payload(found.tag[len(_PREFIX) :], value, stop)

    def payload(self, name: bytes, start: int, end: int) -> None:
        kind = kind_of(name)
        if kind == OTHER:
            tag = self.tags.setdefault(name, len(self.tags))
            self.entries += ENTRY.pack(self.base + start, tag, 0, end - start, 0, 0, 0, 0, 0, OTHER, 0)
            return
        shift = int(kind != STEPS)  # field 1 of a detail block is its level, and the others move by one
        numbers = [0] * 7
        columns = sketches = (start, start)
        for number, wire, value, stop in fields(self.data, start, end):
            if wire == VARINT and number <= 2:
                numbers[number] = value
            elif wire == VARINT and 3 + shift <= number <= 6 + shift:
                numbers[number - shift] = value
            elif wire == BYTES and number == 7 + shift:
                columns = value, stop
            elif wire == BYTES and number == 8 + shift:
                sketches = value, stop
        # An entry keeps the place of the sketches as their distance from the columns, which come first.
        ahead = sketches[0] - columns[0] if sketches[0] < sketches[1] else 0
        rank, rows, samples = numbers[2], numbers[5] & 0xFFFFFFFF, numbers[6] & 0xFFFFFFFF
        # An entry has no room for either, and no writer of ours makes such a block.
        if ahead < 0 or rank > 0xFFFF:
            raise Malformed
        self.entries += ENTRY.pack(
            self.base + columns[0], signed(numbers[3]), signed(numbers[4]), columns[1] - columns[0],
            rows, samples, ahead, sketches[1] - sketches[0], rank, kind, min(numbers[1], 255),
        )  # fmt: skip

    # ---- what others wrote

    def foreign(self, found: RawValue, step: int, wall_time: float, place: tuple[int, int]) -> None:
        number, histogram = found.simple, found.histogram
        if number is None and not histogram and found.tensor is not None:
            number, histogram = self.number_of(*found.tensor)
        if number is None and not histogram:
            return
        tag = self.tags.setdefault(found.tag, len(self.tags))
        if number is None:
            start, end = place
            self.points += POINT.pack(step, wall_time, 0.0, self.base + start, end - start, tag)
        else:
            self.points += POINT.pack(step, wall_time, number, -1, 0, tag)

    def number_of(self, start: int, end: int) -> tuple[float | None, bool]:
        """Return the number in a tensor of rank 0, or whether the tensor is a table of histogram buckets."""
        dtype, dims, numbers = 0, list[int](), dict[int, bytes]()
        for number, kind, value, stop in fields(self.data, start, end):
            if number == 1 and kind == VARINT:
                dtype = value
            elif number == 2 and kind == BYTES:
                dims = list(self.dims_of(value, stop))
            elif number in (4, 5, 6) and kind == BYTES and stop > value:
                numbers[number] = self.data[value:stop]
            # A list of a single number may be stored unpacked, as the number itself.
            elif number in (5, 6) and kind == (FIXED32 if number == 5 else FIXED64):
                numbers[number] = value.to_bytes(4 if number == 5 else 8, "little")
        if dtype not in (_FLOAT, _DOUBLE):
            return None, False
        if dims:
            return None, len(dims) == 2 and dims[0] > 0 and dims[1] == 3
        form, field = ("<f", 5) if dtype == _FLOAT else ("<d", 6)
        # Writers put the number into `tensor_content` or into the list of its type.
        stored = numbers.get(4, numbers.get(field, b""))
        return (struct.unpack(form, stored)[0] if len(stored) == struct.calcsize(form) else None), False

    def dims_of(self, start: int, end: int) -> Iterator[int]:
        for number, kind, value, stop in fields(self.data, start, end):
            if number == 2 and kind == BYTES:
                size = 0
                for inner, inner_kind, inner_value, _ in fields(self.data, value, stop):
                    if inner == 1 and inner_kind == VARINT:
                        size = signed(inner_value)
                yield size


def kind_of(name: bytes) -> int:
    """Return STEPS, the level of detail, or OTHER."""
    kind, _, level = name.partition(b"/")
    if name == b"steps":
        return STEPS
    if kind == b"detail" and 1 <= len(level) <= 2 and level.isdigit() and 1 <= int(level) <= MOST_LEVELS:
        return int(level)
    return OTHER
