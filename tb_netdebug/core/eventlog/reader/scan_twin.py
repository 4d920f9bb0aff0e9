"""The scanner of event files in plain Python: finds whole records and the gaps between them.

The specification of `native/scan.h`: both give the same bytes for the same input. Chosen by `scanner.py`.
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
    """The state of one scan over a piece of a file that starts at offset `base`; see `scan`."""

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
        self.searched = 0, 0  # the part of `data` that `candidates` covers

    def run(self, at: int) -> int:
        """Take records from `at` on; return where it stopped.

        That is the end of the piece, or a record of which `need` bytes must be in one piece.
        """
        while len(self.data) - at >= HEADER_BYTES and self.patience >= 0:
            length = self.length_at(at)
            if length is not None and at + OVERHEAD_BYTES + length <= self.beyond:
                self.need = OVERHEAD_BYTES + length
                # The record goes on behind this piece: the caller has to bring all of it.
                if at + self.need > len(self.data):
                    return at
                if self.is_whole(at, length):
                    self.take(at, length)
                    at += OVERHEAD_BYTES + length
                    continue
            at = self.lose(at, length)
        self.need = 0
        # Out of patience: the rest of the piece counts as lost.
        return at if self.patience >= 0 else len(self.data)

    def length_at(self, at: int) -> int | None:
        """Return the payload length from the header at `at`, or None if no valid header is there."""
        header = self.data[at : at + HEADER_BYTES]
        if masked_crc(header[:8]) != int.from_bytes(header[8:], "little"):
            return None
        length = int.from_bytes(header[:8], "little")
        return length if length <= MAX_PAYLOAD_BYTES else None

    def is_whole(self, at: int, length: int) -> bool:
        """Return whether the payload matches its checksum; charge the bytes of a mismatch to `patience`."""
        body = self.data[at + HEADER_BYTES : at + HEADER_BYTES + length]
        end = at + HEADER_BYTES + length
        if masked_crc(body) == int.from_bytes(self.data[end : end + FOOTER_BYTES], "little"):
            return True
        self.patience -= length + FOOTER_BYTES
        return False

    def lose(self, at: int, length: int | None) -> int:
        """Note that the record at `at` is lost, and return where to go on."""
        if self.lost < 0:
            self.lost = self.base + at
            self.reason = BAD_HEADER if length is None else BAD_PAYLOAD
        # Search inside the damaged record, too: its header may be forged, with whole records behind it.
        return self.search(at + 1)

    def search(self, at: int) -> int:
        """Return the next offset that looks like a header, or that of the last bytes, where one may begin."""
        while len(self.data) - at >= HEADER_BYTES:
            if not self.searched[0] <= at < self.searched[1]:
                self.look_from(at)
            place = bisect_left(self.candidates, at)
            if place < len(self.candidates):
                return self.candidates[place]
            at = self.searched[1]
        return at

    def look_from(self, at: int) -> None:
        """Find all candidates of one window at once: it may hold many that turn out to be no headers."""
        window = self.data[at : at + _SEARCH_BYTES]
        self.searched = at, at + max(len(window) - HEADER_BYTES + 1, 1)
        offsets = (at + offset for offset in header_offsets(window))
        self.candidates = [offset for offset in offsets if self.length_at(offset) is not None]

    def take(self, at: int, length: int) -> None:
        """Take a whole record, and close the gap before it, if there is one."""
        if self.lost >= 0:
            self.gaps += GAP.pack(self.lost, self.base + at, self.reason)
            self.lost = -1
        start = at + HEADER_BYTES
        if not self.events.take(start, start + length):
            self.gaps += GAP.pack(self.base + at, self.base + start + length + FOOTER_BYTES, BAD_CONTENT)


def scan(
    data: bytes, at: int, base: int, beyond: int, lost: int, reason: int, patience: int, ours: bool, /
) -> tuple[bytes, bytes, bytes, list[bytes], int, int, int, int, int]:
    """Scan the records in `data` from `at` on; return entries, points, gaps and tags, then how to go on.

    `data` starts at offset `base` of a file that ends `beyond` bytes after that. `lost` is the offset in the
    file from which nothing whole has been found so far, or -1; `reason` says why. At most `patience` bytes of
    records with wrong checksums are read. With `ours` the entries are blocks of ours; without it the points
    are numbers and histograms that other programs wrote.

    The last five values are `at`, `lost`, `reason` and `patience` for the next call, and how many bytes from
    that `at` on the next `data` must hold (0: any number).
    """
    whole = Scan(data, base, beyond, lost, reason, patience, ours)
    at = whole.run(at)
    found = whole.events
    tables = bytes(found.entries), bytes(found.points), bytes(whole.gaps), list(found.tags)
    return *tables, at, whole.lost, whole.reason, whole.patience, whole.need
