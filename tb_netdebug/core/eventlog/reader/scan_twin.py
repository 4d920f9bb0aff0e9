"""Which records of an event file are whole, in plain Python: the specification of `scan.h`.

Both give the same bytes for the same bytes.
"""

from __future__ import annotations

import struct
from bisect import bisect_left

from tb_netdebug.core.eventlog.reader.events_twin import Events
from tb_netdebug.core.eventlog.reader.header_search import MAX_PAYLOAD_BYTES, header_offsets
from tb_netdebug.core.eventlog.writer.framing import FOOTER_BYTES, HEADER_BYTES, OVERHEAD_BYTES, masked_crc

GAP = struct.Struct("<qqq")
BAD_HEADER, BAD_PAYLOAD, BAD_CONTENT = 0, 1, 2
_SEARCH_BYTES = 1 << 16


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
        self.events = Events(data, base, ours)
        self.need = 0
        self.gaps = bytearray()
        self.candidates: list[int] = []
        self.searched = 0, 0  # the part of the data that they were looked for in

    def run(self, at: int) -> int:
        """Where it stopped: at the end of the piece, or where `need` bytes are wanted at once."""
        while len(self.data) - at >= HEADER_BYTES and self.patience >= 0:
            length = self.length_at(at)
            if length is not None and at + OVERHEAD_BYTES + length <= self.beyond:
                self.need = OVERHEAD_BYTES + length
                if at + self.need > len(self.data):
                    return at
                if self.is_whole(at, length):
                    self.take(at, length)
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
        return length if length <= MAX_PAYLOAD_BYTES else None

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
        # Also within a record that is damaged: its header may be forged, and whole records lie behind that.
        return self.search(at + 1)

    def search(self, at: int) -> int:
        """The next place that looks like a header, or the last bytes, in which one may begin."""
        while len(self.data) - at >= HEADER_BYTES:
            if not self.searched[0] <= at < self.searched[1]:
                self.look_from(at)
            place = bisect_left(self.candidates, at)
            if place < len(self.candidates):
                return self.candidates[place]
            at = self.searched[1]
        return at

    def look_from(self, at: int) -> None:
        """Finds all candidates of a window at once: it may hold many that turn out to be none."""
        window = self.data[at : at + _SEARCH_BYTES]
        self.searched = at, at + max(len(window) - HEADER_BYTES + 1, 1)
        offsets = (at + offset for offset in header_offsets(window))
        self.candidates = [offset for offset in offsets if self.length_at(offset) is not None]

    def take(self, at: int, length: int) -> None:
        if self.lost >= 0:
            self.gaps += GAP.pack(self.lost, self.base + at, self.reason)
            self.lost = -1
        start = at + HEADER_BYTES
        if not self.events.take(start, start + length):
            self.gaps += GAP.pack(self.base + at, self.base + start + length + FOOTER_BYTES, BAD_CONTENT)


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
    found = whole.events
    tables = bytes(found.entries), bytes(found.points), bytes(whole.gaps), list(found.tags)
    return *tables, at, whole.lost, whole.reason, whole.patience, whole.need
