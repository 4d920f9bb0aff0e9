"""Blocks from the files, unpacked, by way of the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

from tb_netdebug.reader.block_cache import BlockCache
from tb_netdebug.reader.file_index import FileIndex
from tb_netdebug.reader.storage import Reading

# Of one block; the writer makes blocks of about a megabyte.
MOST_COLUMN_BYTES = 32 << 20

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Unpacked blocks with what their entries say; `places` are those of the entries in the file.

    What could not be unpacked is there as no bytes, and is no message of ours, so every decoder refuses it.
    """

    file: FileIndex
    places: Integers
    columns: list[bytes]
    entries: NDArray[np.void]

    def numbers(self, field: str) -> list[int]:
        numbers: list[int] = self.entries[field].tolist()
        return numbers


class BlockReader:
    """Safe from any thread."""

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache

    def read(self, file: FileIndex, places: Integers) -> Blocks:
        """Raises OSError when the file is gone."""
        entries = file.entries.view[places]
        offsets, lengths = entries["offset"].tolist(), entries["length"].tolist()
        keys = [(file.serial, offset) for offset in offsets]
        columns = self._cache.get(list(keys))
        missing = [at for at, data in enumerate(columns) if data is None]
        if missing:
            with file.storage.open(file.path) as opened:
                for at, frame in zip(missing, _frames(opened, offsets, lengths, missing), strict=True):
                    data = unpacked(frame)
                    columns[at] = data
                    self._cache.put(keys[at], data)
        return Blocks(file, places, [data or b"" for data in columns], entries)

    def note_damage(self, blocks: Blocks, damaged: Sequence[int]) -> None:
        """Blocks that could not be understood although their checksums are right."""
        for at in damaged:
            blocks.file.note_damage(int(blocks.places[at]))

    def sketches(self, blocks: Blocks, parts: Sequence[tuple[int, int, int]]) -> list[bytes]:
        """Of the blocks at the given places in `blocks` some bytes of their sketches: start and size."""
        entries = blocks.entries
        starts = (entries["offset"] + entries["ahead"]).tolist()
        with blocks.file.storage.open(blocks.file.path) as opened:
            return [opened.at(starts[at] + start, size) for at, start, size in parts]


def _frames(opened: Reading, offsets: list[int], lengths: list[int], chosen: list[int]) -> list[bytes]:
    return [opened.at(offsets[at], min(lengths[at], MOST_COLUMN_BYTES)) for at in chosen]


def unpacked(frame: bytes) -> bytes:
    """Nothing when it is damaged or too big."""
    try:
        size = zstandard.frame_content_size(frame)
        if not 0 < size <= MOST_COLUMN_BYTES:
            return _DAMAGED if size else b""
        return zstandard.ZstdDecompressor().decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError:
        return _DAMAGED


_DAMAGED = b"\x07"  # a field type that protobuf does not have
