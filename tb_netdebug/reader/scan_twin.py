"""What stands where in an event file, in plain Python: the specification of `scan.c`.

Both give the same bytes for the same bytes. Of a block only the envelope is looked at; it stays compressed in
the file until somebody asks for what it holds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tb_netdebug.reader.frames import header_offsets
from tb_netdebug.reader.wire import BYTES, FIXED32, FIXED64, VARINT, Malformed, fields, signed
from tb_netdebug.writer.framing import FOOTER_BYTES, HEADER_BYTES, OVERHEAD_BYTES, masked_crc

MOST_RECORD_BYTES = 64 << 20
STEPS, OTHER, MOST_LEVELS = 0, 31, 30
ENTRY = struct.Struct("<qqqIIIIIHBB")
POINT = struct.Struct("<qddqII")
GAP = struct.Struct("<qqq")
BAD_HEADER, BAD_PAYLOAD, BAD_CONTENT = 0, 1, 2

_PREFIX = b"netdebug/"
_PLUGIN = b"netdebug"
_SEARCH_BYTES = 1 << 16
_FLOAT, _DOUBLE = 1, 2


class Value(NamedTuple):
    """One value of a summary, by the places of its parts."""

    tag: bytes
    plugin: bytes
    simple: float | None
    histogram: bool
    tensor: tuple[int, int] | None


class Scan:
    """One piece of a file, from its beginning `base` in the file on; see `scan`."""

    def __init__(
        self, data: bytes, base: int, beyond: int, lost: int, reason: int, patience: int, ours: bool
    ) -> None:
        self.data = data
        self.base = base
        self.beyond = beyond
        self.lost = lost
        self.reason = reason
        self.patience = patience
        self.ours = ours
        self.need = 0
        self.entries = bytearray()
        self.points = bytearray()
        self.gaps = bytearray()
        self.tags: dict[bytes, int] = {}

    # ---- records

    def run(self, at: int) -> int:
        """Where it stopped: at the end of the piece, or where `need` bytes are wanted at once."""
        while len(self.data) - at >= HEADER_BYTES and self.patience >= 0:
            length = self.length_at(at)
            if length is not None and at + OVERHEAD_BYTES + length <= self.beyond:
                # The next header decides whether a damaged record is passed as a whole.
                self.need = min(OVERHEAD_BYTES + length + HEADER_BYTES, self.beyond - at)
                if at + self.need > len(self.data):
                    return at
                if self.is_whole(at, length):
                    self.end_gap(at)
                    self.event(at, length)
                    at += OVERHEAD_BYTES + length
                    continue
            at = self.lose(at, length)
        self.need = 0
        return at if self.patience >= 0 else len(self.data)

    def length_at(self, at: int) -> int | None:
        header = self.data[at : at + HEADER_BYTES]
        if masked_crc(header[:8]) != int.from_bytes(header[8:], "little"):
            return None
        length = int.from_bytes(header[:8], "little")
        return length if length <= MOST_RECORD_BYTES else None

    def is_whole(self, at: int, length: int) -> bool:
        body = self.data[at + HEADER_BYTES : at + HEADER_BYTES + length]
        end = at + HEADER_BYTES + length
        if masked_crc(body) == int.from_bytes(self.data[end : end + FOOTER_BYTES], "little"):
            return True
        self.patience -= length + FOOTER_BYTES
        return False

    def lose(self, at: int, length: int | None) -> int:
        """Where to look next after a record that is not whole."""
        if self.lost < 0:
            self.lost = self.base + at
            self.reason = BAD_HEADER if length is None else BAD_PAYLOAD
        if length is not None:
            after = at + OVERHEAD_BYTES + length
            if after == len(self.data) == self.beyond:
                return after
            if after + HEADER_BYTES <= len(self.data) and self.length_at(after) is not None:
                return after
        return self.search(at + 1)

    def search(self, at: int) -> int:
        """The next place that looks like a header, or the last bytes, in which one may begin."""
        while len(self.data) - at >= HEADER_BYTES:
            window = self.data[at : at + _SEARCH_BYTES]
            for candidate in header_offsets(window):
                if self.length_at(at + candidate) is not None:
                    return at + candidate
            at += max(len(window) - HEADER_BYTES + 1, 1)
        return at

    def end_gap(self, at: int) -> None:
        if self.lost >= 0:
            self.gaps += GAP.pack(self.lost, self.base + at, self.reason)
            self.lost = -1

    # ---- what is in them

    def event(self, at: int, length: int) -> None:
        entries, points = len(self.entries), len(self.points)
        start = at + HEADER_BYTES
        try:
            self.summary_of(start, start + length)
        except Malformed:
            del self.entries[entries:]
            del self.points[points:]
            self.gaps += GAP.pack(self.base + at, self.base + start + length + FOOTER_BYTES, BAD_CONTENT)

    def summary_of(self, start: int, end: int) -> None:
        wall_time, step = 0.0, 0
        summary: tuple[int, int] | None = None
        for number, kind, value, stop in fields(self.data, start, end):
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

    def value_of(self, start: int, end: int) -> Value:
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
        return Value(tag, plugin, simple, histogram, tensor)

    def plugin_of(self, start: int, end: int) -> bytes:
        name = b""
        for number, kind, value, stop in fields(self.data, start, end):
            if number == 1 and kind == BYTES:
                for inner, inner_kind, inner_value, inner_stop in fields(self.data, value, stop):
                    if inner == 1 and inner_kind == BYTES:
                        name = self.data[inner_value:inner_stop]
        return name

    def value(self, found: Value, step: int, wall_time: float, place: tuple[int, int]) -> None:
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
        shift = int(kind != STEPS)  # a detail block has its level before the rest
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
        ahead = sketches[0] - columns[0] if sketches[0] < sketches[1] else 0
        rank, rows, samples = numbers[2], numbers[5] & 0xFFFFFFFF, numbers[6] & 0xFFFFFFFF
        if ahead < 0 or rank > 0xFFFF:
            raise Malformed
        self.entries += ENTRY.pack(
            self.base + columns[0], signed(numbers[3]), signed(numbers[4]), columns[1] - columns[0],
            rows, samples, ahead, sketches[1] - sketches[0], rank, kind, min(numbers[1], 255),
        )  # fmt: skip

    # ---- what others wrote

    def foreign(self, found: Value, step: int, wall_time: float, place: tuple[int, int]) -> None:
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
        """The number in a tensor of rank 0, or whether it is a table of buckets."""
        dtype, dims, numbers = 0, list[int](), dict[int, bytes]()
        for number, kind, value, stop in fields(self.data, start, end):
            if number == 1 and kind == VARINT:
                dtype = value
            elif number == 2 and kind == BYTES:
                dims = list(self.dims_of(value, stop))
            elif number in (4, 5, 6) and kind == BYTES and stop > value:
                numbers[number] = self.data[value:stop]
            elif number in (5, 6) and kind == (FIXED32 if number == 5 else FIXED64):
                numbers[number] = value.to_bytes(4 if number == 5 else 8, "little")
        if dtype not in (_FLOAT, _DOUBLE):
            return None, False
        if dims:
            return None, len(dims) == 2 and dims[0] > 0 and dims[1] == 3
        form, field = ("<f", 5) if dtype == _FLOAT else ("<d", 6)
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


def scan(
    data: bytes, at: int, base: int, beyond: int, lost: int, reason: int, patience: int, ours: bool, /
) -> tuple[bytes, bytes, bytes, list[bytes], int, int, int, int, int]:
    """Entries, points, gaps and tags of the records in `data` from `at` on; then how to go on.

    `data` lies at offset `base` of a file that ends `beyond` bytes behind that. `lost` is the offset in the
    file from which on nothing whole was found so far, or -1, `reason` why. At most `patience` bytes of
    records with wrong checksums are read. With `ours` blocks of ours are entries, else numbers and
    histograms of others are points.

    What comes back at the end: `at`, `lost`, `reason` and `patience` for the next call, and how many bytes
    from that `at` on it must hold (0: any number).
    """
    whole = Scan(data, base, beyond, lost, reason, patience, ours)
    at = whole.run(at)
    tables = bytes(whole.entries), bytes(whole.points), bytes(whole.gaps), list(whole.tags)
    return *tables, at, whole.lost, whole.reason, whole.patience, whole.need


def kind_of(name: bytes) -> int:
    """STEPS, the level of detail, or OTHER."""
    kind, _, level = name.partition(b"/")
    if name == b"steps":
        return STEPS
    if kind == b"detail" and 1 <= len(level) <= 2 and level.isdigit() and 1 <= int(level) <= MOST_LEVELS:
        return int(level)
    return OTHER
