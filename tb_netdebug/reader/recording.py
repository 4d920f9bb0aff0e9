"""A run that NetDebug recorded: its files, followed, and what they hold."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.reader import scanner
from tb_netdebug.reader.block_reader import BlockReader
from tb_netdebug.reader.catalogue import Catalogue
from tb_netdebug.reader.file_index import FileIndex
from tb_netdebug.reader.scan_twin import MOST_LEVELS
from tb_netdebug.reader.storage import FileState, Storage
from tb_netdebug.reader.timeline import Flags, Integers, Piece, Track, newest
from tb_netdebug.records.block import VERSION
from tb_netdebug.records.detail_block import DETAIL_VERSION
from tb_netdebug.records.errors import DamagedBlock, UnsupportedVersion
from tb_netdebug.records.graph import Graph, decode_graph
from tb_netdebug.records.run_info import decode_run_info

MOST_PAYLOAD_BYTES = 16 << 20
# New blocks of which all names are read; of more at once a choice tells nearly as much.
_FEW_BLOCKS = 64

Decoded = TypeVar("Decoded")


class Recording:
    """Safe from any thread: `refresh` changes it under a lock, and what others hold stays as it is."""

    def __init__(self, storage: Storage, path: str, reader: BlockReader) -> None:
        self.reader = reader
        self.catalogue = Catalogue()
        self.complaints: dict[str, str] = {}
        self._storage = storage
        self._path = path
        self._lock = threading.RLock()
        self._files: dict[str, FileIndex] = {}
        self._tracks: dict[int, dict[str, Track]] = {}
        self._payloads: dict[str, tuple[object, Any]] = {}
        self._pieces: dict[int, list[Piece]] = {}

    # ---- following

    def refresh(self, states: Mapping[str, FileState]) -> bool:
        """Reads what was added to the files; whether anything was."""
        with self._lock:
            changed = False
            for path in [*self._files]:
                if path not in states or self._files[path].is_other(states[path]):
                    self._forget(path)
                    changed = True
            for path, state in states.items():
                changed |= self._follow(path, state)
            if changed:
                self._pieces = {}
            return changed

    def _forget(self, path: str) -> None:
        del self._files[path]
        for rank in [*self._tracks]:
            self._tracks[rank].pop(path, None)
            if not self._tracks[rank]:
                del self._tracks[rank]
        self.complaints.pop(path, None)

    def _follow(self, path: str, state: FileState) -> bool:
        is_new = path not in self._files
        file = self._files.setdefault(path, FileIndex(self._storage, path))
        before = file.progress
        try:
            try:
                self._read(file, state)
            except ValueError:
                self._forget(path)
                return self._follow(path, state)
        except OSError as error:
            self.complaints[path] = f"{path.rpartition('/')[2]} cannot be read: {error.strerror or error}."
            return is_new
        return is_new or file.progress != before

    def _read(self, file: FileIndex, state: FileState) -> None:
        for entries in file.grow(state):
            start = len(file.entries) - len(entries)
            places = np.arange(start, start + len(entries))
            known = self._known(file.path, entries)
            for rank in np.unique(entries["rank"][known]).tolist():
                chosen = np.flatnonzero(known & (entries["rank"] == rank))
                track = self._tracks.setdefault(rank, {}).get(file.path)
                if track is None:
                    track = self._tracks[rank][file.path] = Track(file)
                track.add(entries[chosen], places[chosen], lambda at: self._rows(file, at))
            self._note_names(file, places[known])

    def _known(self, path: str, entries: NDArray[np.void]) -> Flags:
        """Those whose version we know; of the others one complaint."""
        is_step = entries["kind"] == 0
        versions = entries["version"]
        known = np.where(is_step, VERSION, DETAIL_VERSION) >= versions
        if not known.all():
            newer = int(versions[~known].max())
            self.complaints[path] = str(UnsupportedVersion("run", newer, VERSION))
        return known & (versions > 0) & (entries["kind"] <= MOST_LEVELS)

    def _rows(self, file: FileIndex, places: Integers) -> list[tuple[Integers, Flags]]:
        blocks = self.reader.read(file, places)
        _, steps, _, measured, *_ = scanner.step_rows(blocks.columns, blocks.numbers("rows"), [])
        if not steps:
            return []
        return [(np.frombuffer(steps, np.int64), np.frombuffer(measured, np.bool_))]

    def _note_names(self, file: FileIndex, places: Integers) -> None:
        kinds = file.entries.view["kind"][places]
        if len(places) > _FEW_BLOCKS:
            places, kinds = self._telling(file, places, kinds)
        for is_detail in (False, True):
            chosen = places[(kinds > 0) == is_detail]
            if len(chosen):
                blocks = self.reader.read(file, chosen)
                self.catalogue.add(*scanner.names_of(blocks.columns, is_detail))

    def _telling(self, file: FileIndex, places: Integers, kinds: NDArray[np.uint8]) -> Any:
        """The first and last blocks of each level, and enough of the coarsest to name all that is there."""
        chosen = set()
        for level in np.unique(kinds).tolist():
            of_level = places[kinds == level]
            spread = np.linspace(0, len(of_level) - 1, min(len(of_level), 24)).astype(np.int64)
            chosen.update(of_level[spread].tolist())
        picked = np.array(sorted(chosen), np.int64)
        return picked, file.entries.view["kind"][picked]

    # ---- what is there

    @property
    def ranks(self) -> list[int]:
        with self._lock:
            return sorted(self._tracks)

    @property
    def files(self) -> list[FileIndex]:
        with self._lock:
            return list(self._files.values())

    def pieces(self, rank: int, first: int | None = None, last: int | None = None) -> list[Piece]:
        """What counts of a rank in a range of steps, by rising steps."""
        with self._lock:
            if rank not in self._pieces:
                self._pieces[rank] = newest(self._in_order(rank))
            pieces = self._pieces[rank]
        low = pieces[0].first if first is None and pieces else first
        high = pieces[-1].last if last is None and pieces else last
        parts = (piece.part(low or 0, high or 0) for piece in pieces)
        return [part for part in parts if part is not None]

    def _in_order(self, rank: int) -> list[Track]:
        tracks = self._tracks.get(rank, {})
        return [tracks[path] for path in self._files if path in tracks]

    def levels(self, pieces: Iterable[Piece]) -> list[int]:
        return sorted({level for piece in pieces for level in list(piece.stretch.levels)})

    def graph(self) -> Graph | None:
        return self._payload("graph", decode_graph, None)

    def info(self) -> dict[str, Any]:
        return self._payload("run", decode_run_info, {})

    def _payload(self, name: str, decode: Callable[[bytes], Decoded], missing: Decoded) -> Decoded:
        """The newest payload of a name; what cannot be understood is left to an older one."""
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
