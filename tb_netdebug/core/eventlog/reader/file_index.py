"""An index of one event file that may still be growing: where its blocks and payloads are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.reader.events_twin import OTHER
from tb_netdebug.core.eventlog.reader.growing import Growing
from tb_netdebug.core.eventlog.reader.places import clean
from tb_netdebug.core.eventlog.reader.storage import FileState, OpenFile, Storage, is_ours
from tb_netdebug.core.eventlog.writer.framing import HEADER_BYTES

_PIECE_BYTES = 1 << 20
# Each read from an object store is a request over the network, so each asks for more.
_REMOTE_PIECE_BYTES = 16 << 20
# The last bytes read, compared on the next look: an object store may have replaced the file unnoticed.
_SEAL_BYTES = 32
# An incomplete end may be completed later, so every look scans it again. Of a longer one than this, all but
# the last half of this is given up.
_HOPE_BYTES = 32 << 20
# How many bytes of records with wrong checksums are read, besides eight times what is left of the file.
_PATIENCE_BYTES = 256 << 20
MOST_GAPS = 1000
MOST_NAMES = 1000
WITNESS = b"witness"

_REASONS = (
    "no record begins here, though one should",
    "the checksum of this record is wrong",
    "this record could not be decoded",
)
_TAIL = "the file ends within a record"

_serials = count()


@dataclass(frozen=True, slots=True)
class IndexedPiece:
    """The contents of a scanned piece of a file.

    In files of ours these are blocks, in others points with the `tags` to read them. `samples` are the
    payloads that an agent wrote about the processes of a training run.
    """

    blocks: NDArray[np.void]
    points: NDArray[np.void]
    tags: list[bytes]
    samples: list[bytes]


@dataclass(frozen=True, slots=True)
class FileGap:
    """Bytes of a file in which nothing can be read."""

    offset: int
    size: int
    complaint: str


class FileIndex:
    """Follows one file from its beginning. For one thread at a time.

    `serial` is unique among all files ever followed. `at` is where the next look begins.
    """

    def __init__(self, storage: Storage, path: str) -> None:
        self.storage = storage
        self.path = path
        self.serial = next(_serials)
        self.entries = Growing(scanner.ENTRY)
        self.payloads: dict[str, tuple[int, int]] = {}
        self.at = 0
        self._gaps: list[FileGap] = []
        self._gap_count = 0
        self.tail: FileGap | None = None
        self.state: FileState | None = None
        self._ours = is_ours(path.rpartition("/")[2])
        self._seal = b""
        self._damaged: set[int] = set()

    @property
    def lost(self) -> list[FileGap]:
        """The unreadable parts, at most MOST_GAPS; last the incomplete end, which may still be completed."""
        return [*self._gaps, *([self.tail] if self.tail is not None else [])]

    @property
    def gap_count(self) -> int:
        return self._gap_count + (self.tail is not None)

    @property
    def progress(self) -> tuple[int, ...]:
        """A value that differs after every look that has found something."""
        return self.at, len(self.entries), self.gap_count, self.tail.size if self.tail else 0

    def note_damage(self, place: int) -> None:
        """Note once that a block with a right checksum cannot be decoded."""
        if place in self._damaged or len(self._damaged) >= MOST_GAPS:
            return
        self._damaged.add(place)
        entry = self.entries.view[place]
        self._note(int(entry["offset"]), int(entry["offset"] + entry["length"]), 2)

    def is_other(self, state: FileState) -> bool:
        """Return whether another file has taken the place, or this one was truncated."""
        before = self.state
        return before is not None and (before.identity != state.identity or state.size < before.size)

    def grow(self, state: FileState) -> Iterator[IndexedPiece]:
        """Yield what was added up to the given state, piece by piece.

        Raises OSError, and of these FileExistsError if another file is there by now: start over with a new
        index.
        """
        if self.state == state:
            return
        with self.storage.open(self.path) as file:
            if self._seal and file.at(self.at - len(self._seal), len(self._seal)) != self._seal:
                raise FileExistsError("the file was replaced")
            yield from self._read(file, state.size)
        self.entries.trim()
        self.state = state

    def _read(self, file: OpenFile, end: int) -> Iterator[IndexedPiece]:
        at, lost, reason = self.at, -1, 0
        patience = 8 * (end - at) + _PATIENCE_BYTES
        piece = _REMOTE_PIECE_BYTES if self.storage.is_remote else _PIECE_BYTES
        need = 0
        self.tail = None
        while at < end:
            # In search of a header: skip holes, but keep the zeros that it may begin with.
            if lost >= 0 and not need:
                at = min(max(at, file.behind_hole(at) - HEADER_BYTES), end)
            wanted = min(max(piece, need), end - at)
            data = file.at(at, wanted)
            entries, points, gaps, tags, stop, lost, reason, patience, need = scanner.native.scan(
                data, 0, at, end - at, lost, reason, patience, self._ours
            )
            whole = stop if lost < 0 else lost - at  # up to here no byte is looked at again
            if whole > 0:
                self._seal = data[max(0, whole - _SEAL_BYTES) : whole]
                self.at = at + whole
            for start, after, why in np.frombuffer(gaps, scanner.GAP).tolist():
                self._note(start, after, why)
            found = np.frombuffer(entries, scanner.ENTRY)
            samples = _samples(found, tags, data, at)
            yield IndexedPiece(self._blocks(found, tags), np.frombuffer(points, scanner.POINT), tags, samples)
            # Out of patience: the rest of the file counts as lost.
            at = at + stop if patience >= 0 else end
            if len(data) < wanted or (stop == 0 and not need):
                break  # the file is being truncated, or a header is incomplete
        self._end(lost, reason, end)

    def _end(self, lost: int, reason: int, end: int) -> None:
        # Nothing is damaged, but the last record is incomplete.
        if lost < 0 and self.at < end:
            lost, reason = self.at, -1
        if lost < 0:
            return
        if end - lost > _HOPE_BYTES:
            given_up = end - _HOPE_BYTES // 2
            self._note(lost, given_up, reason)
            lost, self.at, self._seal = given_up, given_up, b""
        self.tail = FileGap(lost, end - lost, _TAIL if reason != 0 else _REASONS[0])

    def _blocks(self, entries: NDArray[np.void], tags: list[bytes]) -> NDArray[np.void]:
        """Keep the entries of blocks, and the newest place of each other payload by name."""
        is_block = entries["kind"] != OTHER
        for entry in entries[~is_block]:
            name = clean(tags[entry["first"]].decode("utf-8", "replace"))
            if name in self.payloads or len(self.payloads) < MOST_NAMES:
                self.payloads[name] = int(entry["offset"]), int(entry["length"])
        blocks: NDArray[np.void] = entries[is_block]
        self.entries.add(blocks)
        return blocks

    def _note(self, start: int, end: int, reason: int) -> None:
        self._gap_count += 1
        if len(self._gaps) < MOST_GAPS:
            self._gaps.append(FileGap(start, end - start, _REASONS[reason]))


def _samples(entries: NDArray[np.void], tags: list[bytes], data: bytes, base: int) -> list[bytes]:
    """Return the payloads that all count, not only the newest: they are small, and at hand here."""
    if WITNESS not in tags:
        return []
    chosen = entries[(entries["kind"] == OTHER) & (entries["first"] == tags.index(WITNESS))]
    places = zip((chosen["offset"] - base).tolist(), chosen["length"].tolist(), strict=True)
    return [data[start : start + size] for start, size in places]
