"""A run that NetDebug recorded: its files, followed, and what they hold. Owned by `followed_run.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader import scanner
from tb_netdebug.core.eventlog.reader.block_order import missing_text
from tb_netdebug.core.eventlog.reader.block_reader import BlockReader
from tb_netdebug.core.eventlog.reader.catalogue import Catalogue
from tb_netdebug.core.eventlog.reader.events_twin import MOST_LEVELS
from tb_netdebug.core.eventlog.reader.file_index import FileGap, FileIndex
from tb_netdebug.core.eventlog.reader.followed_files import FollowedFiles
from tb_netdebug.core.eventlog.reader.step_count import missing_in, steps_of
from tb_netdebug.core.eventlog.reader.storage import FileState, Storage
from tb_netdebug.core.eventlog.reader.stretch import Integers
from tb_netdebug.core.eventlog.reader.timeline import Flags, TimelinePiece, Track, newest
from tb_netdebug.core.eventlog.reader.witnesses import Witnesses
from tb_netdebug.core.records.block import VERSION
from tb_netdebug.core.records.detail_block import DETAIL_VERSION
from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion
from tb_netdebug.core.records.findings import StoredFindings, decode_findings
from tb_netdebug.core.records.graph import Graph, decode_graph
from tb_netdebug.core.records.run_info import decode_run_info

MOST_PAYLOAD_BYTES = 16 << 20
# Up to this many new blocks have all their names read; of more, an even choice of some finds nearly all
# names.
_FEW_BLOCKS = 64
_SOME_BLOCKS = 24

Decoded = TypeVar("Decoded")


class Recording(FollowedFiles):
    """The contents of a run's files by rank: blocks, names, and the newest payload of each kind."""

    def __init__(self, storage: Storage, path: str, reader: BlockReader) -> None:
        super().__init__(storage, path)
        self.reader = reader
        self.catalogue = Catalogue()
        self._tracks: dict[int, dict[str, Track]] = {}
        self._payloads: dict[str, tuple[object, Any]] = {}
        self._pieces: dict[int, list[TimelinePiece]] = {}
        self.witnesses = Witnesses()

    # ---- following

    def _take(self, file: FileIndex, state: FileState) -> None:
        start = len(file.entries)
        for news in file.grow(state):
            if news.samples and (complaint := self.witnesses.take(file.path, news.samples)):
                self.complaints[file.path] = complaint
            known = np.flatnonzero(self._known(file.path, news.blocks))
            entries = news.blocks[known]
            # `grow` has appended the blocks to the entries of the file, so they are the last of them.
            places = known + (len(file.entries) - len(news.blocks))
            for rank in np.unique(entries["rank"]).tolist():
                chosen = entries["rank"] == rank
                tracks = self._tracks.setdefault(rank, {})
                track = tracks.setdefault(file.path, Track(file))
                track.add(entries[chosen], places[chosen], lambda at: self._rows(file, at))
        self._note_names(file, start)

    def _drop(self, file: FileIndex) -> None:
        self.witnesses.drop(file.path)
        for rank in [*self._tracks]:
            self._tracks[rank].pop(file.path, None)
            if not self._tracks[rank]:
                del self._tracks[rank]

    def _settle(self) -> None:
        self._pieces = {
            rank: newest([tracks[file.path] for file in self.files if file.path in tracks])
            for rank, tracks in sorted(self._tracks.items())
        }

    def _known(self, path: str, entries: NDArray[np.void]) -> Flags:
        """Return which entries have a version we can read; note one complaint about the others."""
        is_step = entries["kind"] == 0
        versions = entries["version"]
        known = np.where(is_step, VERSION, DETAIL_VERSION) >= versions
        if not known.all():
            newer = int(versions[~known].max())
            self.complaints[path] = str(UnsupportedVersion("run", newer, VERSION))
        return known & (versions > 0) & (entries["kind"] <= MOST_LEVELS)

    def _rows(self, file: FileIndex, places: Integers) -> list[tuple[Integers, Flags]]:
        found = []
        for blocks in self.reader.read(file, places):
            _, steps, _, measured, *_ = scanner.native.step_rows(blocks.columns, blocks.numbers("rows"), [])
            if steps:
                found.append((np.frombuffer(steps, np.int64), np.frombuffer(measured, np.bool_)))
        return found

    def _note_names(self, file: FileIndex, start: int) -> None:
        """Add the names in new blocks to the catalogue; of many blocks, only those of some at each level."""
        entries = file.entries.view
        places = start + np.flatnonzero(self._known(file.path, entries[start:]))
        if len(places) > _FEW_BLOCKS:
            kinds = entries["kind"][places]
            places = np.concatenate([_spread(places[kinds == kind]) for kind in np.unique(kinds)])
        for is_detail in (False, True):
            chosen = places[(entries["kind"][places] > 0) == is_detail]
            for blocks in self.reader.read(file, chosen):
                self.catalogue.add(*scanner.native.names_of(blocks.columns, is_detail))

    # ---- what is there

    @property
    def ranks(self) -> list[int]:
        return list(self._pieces)

    def pieces(self, rank: int, first: int | None = None, last: int | None = None) -> list[TimelinePiece]:
        """Return the pieces that count for a rank in a range of steps, by rising step."""
        parts = (piece.part(first, last) for piece in self._pieces.get(rank, []))
        return [part for part in parts if part is not None]

    def steps(self, rank: int) -> int:
        """Return how many steps of a rank are recorded, each counted once."""
        return steps_of(self.pieces(rank), self._rows)

    def missing(self) -> list[tuple[FileIndex, FileGap]]:
        """Return steps that lie between two blocks of a file and that none of its blocks has."""
        with self._lock:
            tracks = [track for files in self._tracks.values() for track in files.values() if track.layers]
            return [
                (track.file, FileGap(offset, 0, missing_text(first, last)))
                for track in tracks
                for first, last, offset in missing_in(track)
            ]

    def levels(self, pieces: Iterable[TimelinePiece]) -> list[int]:
        return sorted({level for piece in pieces for level in list(piece.stretch.levels)})

    def graph(self) -> Graph | None:
        return self._payload("graph", decode_graph, None)

    def info(self) -> dict[str, Any]:
        return self._payload("run", decode_run_info, {})

    def findings(self) -> StoredFindings | None:
        """Return what the trainer has found so far, or None if the run was not judged while it trained."""
        return self._payload("findings", decode_findings, None)

    def _payload(self, name: str, decode: Callable[[bytes], Decoded], missing: Decoded) -> Decoded:
        """Return the newest payload of a name that can be decoded, or `missing`."""
        for file in reversed(self.files):
            place = file.payloads.get(name)
            if place is None:
                continue
            key = (file.serial, place)
            known = self._payloads.get(name)
            if known is not None and known[0] == key:
                decoded: Decoded = known[1]
                return decoded
            try:
                decoded = decode(self._bytes(file, *place))
            except UnsupportedVersion as error:
                self.complaints[file.path] = str(error)
                continue
            except (DamagedBlock, OSError):
                continue
            self._payloads[name] = key, decoded
            return decoded
        return missing

    def _bytes(self, file: FileIndex, offset: int, size: int) -> bytes:
        if size > MOST_PAYLOAD_BYTES:
            raise DamagedBlock("a payload is too big")
        with self._storage.open(file.path) as opened:
            data: bytes = opened.at(offset, size)
        return data


def _spread(places: Integers) -> Integers:
    """Return an even choice of the places that includes the first and the last."""
    chosen: Integers = places[
        np.linspace(0, len(places) - 1, min(len(places), _SOME_BLOCKS)).astype(np.int64)
    ]
    return chosen
