"""Reads one event file record by record, with damaged parts as gaps, for `payloads.py` and `judging/`."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.reader.header_search import MAX_PAYLOAD_BYTES
from tb_netdebug.core.eventlog.reader.storage import behind_hole
from tb_netdebug.core.eventlog.writer.framing import FOOTER_BYTES, HEADER_BYTES, OVERHEAD_BYTES, masked_crc

_FIRST_SCAN_BYTES, _SCAN_BYTES = 1 << 12, 1 << 20
_ZEROS = bytes(_SCAN_BYTES)
_GAP = struct.Struct("<qqq")


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One whole record, both of whose checksums were right."""

    offset: int
    payload: bytes

    @property
    def end(self) -> int:
        return self.offset + OVERHEAD_BYTES + len(self.payload)


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes that hold no whole record.

    `reason` is "header" or "payload" for damage, "tail" where the file ends within a record: either it is
    being written at this very moment, or a crash or a copy cut it off.
    """

    offset: int
    size: int
    reason: str

    @property
    def end(self) -> int:
        return self.offset + self.size


def read_frames(path: Path, *, start: int = 0) -> Iterator[LogRecord | Gap]:
    """Yield everything from `start` to the end that the file has now, in order and without overlaps.

    Raises OSError. To go on later, start at the end of the last frame.
    """
    with path.open("rb") as file:
        end = os.fstat(file.fileno()).st_size
        yield from _FrameReader(file, end).frames(start)


def read_frame(path: Path, offset: int) -> LogRecord | None:
    """Return the record at `offset`, or None if no whole one begins there. Raises OSError."""
    with path.open("rb") as file:
        return _FrameReader(file, os.fstat(file.fileno()).st_size).frame_at(offset)


class _FrameReader:
    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file = file
        self._end = end
        # A file made of right headers with wrong payloads could make the search read it over and over.
        self._patience_bytes = 8 * end + MAX_PAYLOAD_BYTES

    def frames(self, offset: int) -> Iterator[LogRecord | Gap]:
        while offset < self._end:
            found = self.frame_at(offset) or self._gap_at(offset)
            yield found
            offset = found.end

    def frame_at(self, offset: int) -> LogRecord | None:
        length = self._length_at(offset)
        if length is None or offset + OVERHEAD_BYTES + length > self._end:
            return None
        body = self._read(offset + HEADER_BYTES, length + FOOTER_BYTES)
        payload, checksum = body[:length], int.from_bytes(body[length:], "little")
        if len(body) != length + FOOTER_BYTES or masked_crc(payload) != checksum:
            self._patience_bytes -= len(body)
            return None
        return LogRecord(offset, payload)

    def _gap_at(self, offset: int) -> Gap:
        """Return the gap from here to the next whole record, or to the end of the file."""
        length = self._length_at(offset)
        if length is None:
            reason = "tail" if self._end - offset < HEADER_BYTES else "header"
        else:
            after = offset + OVERHEAD_BYTES + length
            reason = "payload" if after <= self._end else "tail"
        found = self._search(offset + 1)
        if found < self._end and reason == "tail":
            reason = "payload"  # its end was lost, and more records follow
        return Gap(offset, found - offset, reason)

    def _length_at(self, offset: int) -> int | None:
        header = self._read(offset, HEADER_BYTES)
        if len(header) < HEADER_BYTES or masked_crc(header[:8]) != int.from_bytes(header[8:], "little"):
            return None
        length = int.from_bytes(header[:8], "little")
        return length if length <= MAX_PAYLOAD_BYTES else None

    def _search(self, offset: int) -> int:
        """Return the next offset with a whole record, or the end, found by the scanner of the page."""
        # The next record is usually near, and there may be many gaps: start with a small window.
        at, size = offset, _FIRST_SCAN_BYTES
        while self._end - at > OVERHEAD_BYTES and self._patience_bytes >= 0:
            at = self._behind_hole(at)
            window = self._read(at, size)
            is_last = at + len(window) == self._end
            need, stop = 0, len(window) - HEADER_BYTES + 1
            # A window of zeros holds no header: skip the scan.
            if not _ZEROS.startswith(window):
                _, _, gaps, _, stop, _, _, self._patience_bytes, need = scanner.native.scan(
                    window, 0, at, self._end - at, offset, 0, self._patience_bytes, True
                )
                if gaps:  # the first one ends where the first whole record begins
                    return int(_GAP.unpack_from(gaps)[1])
            if len(window) < HEADER_BYTES or (is_last and not need):
                break
            at += stop
            size = max(min(4 * size, _SCAN_BYTES), need)
        return self._end

    def _behind_hole(self, offset: int) -> int:
        """Return where a hole of a sparse file ends, less a few zeros that a header may begin with."""
        descriptor = self._file.fileno()
        before = os.lseek(descriptor, 0, os.SEEK_CUR)  # the file object's buffer relies on it
        data = behind_hole(descriptor, offset)
        os.lseek(descriptor, before, os.SEEK_SET)
        return min(max(offset, data - HEADER_BYTES), self._end)

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(min(size, self._end - offset))
