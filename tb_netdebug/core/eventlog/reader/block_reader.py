"""Reads blocks from files and unpacks them, through the cache; used by every view of a recorded run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import zstandard
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.reader.block_cache import BlockCache
from tb_netdebug.core.eventlog.reader.file_index import FileIndex
from tb_netdebug.core.eventlog.reader.storage import OpenFile

# The most that one block may unpack to; the writer makes blocks of about a megabyte.
MOST_COLUMN_BYTES = 32 << 20
# How many blocks are unpacked at once, or fewer if they are big.
BATCH_BLOCKS = 256
_BATCH_BYTES = 24 << 20

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Unpacked blocks and their entries; `places` are the places of these entries in the file.

    A block that cannot be unpacked stands there as bytes that no decoder accepts.
    """

    file: FileIndex
    places: Integers
    columns: list[bytes]
    entries: NDArray[np.void]

    def numbers(self, field: str) -> list[int]:
        numbers: list[int] = self.entries[field].tolist()
        return numbers


class BlockReader:
    """Reads and unpacks blocks. Safe from any thread."""

    def __init__(self, cache: BlockCache) -> None:
        self._cache = cache

    def read(self, file: FileIndex, places: Integers) -> Iterator[Blocks]:
        """Yield the blocks in order, some at a time. Raises OSError if the file is gone."""
        entries = file.entries.view[places]
        offsets, lengths = entries["offset"].tolist(), entries["length"].tolist()
        start = 0
        decompressor = zstandard.ZstdDecompressor()  # making one for each block takes half the time
        with ExitStack() as stack:
            opened: OpenFile | None = None
            while start < len(places):
                keys = [(file.serial, offset) for offset in offsets[start : start + BATCH_BLOCKS]]
                columns: list[bytes] = []
                size = 0
                for key, length, data in zip(keys, lengths[start:], self._cache.get(keys), strict=False):
                    if data is None:
                        opened = opened or stack.enter_context(file.storage.open(file.path))
                        data = unpacked(decompressor, opened.at(key[1], min(length, MOST_COLUMN_BYTES)))
                        self._cache.put(key, data)
                    columns.append(data)
                    size += len(data)
                    if size > _BATCH_BYTES:
                        break
                stop = start + len(columns)
                yield Blocks(file, places[start:stop], columns, entries[start:stop])
                start = stop

    def note_damage(self, blocks: Blocks, damaged: Sequence[int]) -> None:
        """Report blocks that cannot be decoded although their checksums are right."""
        for at in damaged:
            blocks.file.note_damage(int(blocks.places[at]))

    def sketches(self, blocks: Blocks, parts: Iterable[tuple[int, int, int]]) -> list[bytes]:
        """Read parts of sketches, each given by a place in `blocks`, the first byte and the size."""
        starts = (blocks.entries["offset"] + blocks.entries["ahead"]).tolist()
        with blocks.file.storage.open(blocks.file.path) as opened:
            return [opened.at(starts[at] + start, size) for at, start, size in parts]


def unpacked(decompressor: zstandard.ZstdDecompressor, frame: bytes) -> bytes:
    """Return the unpacked bytes, or bytes that no decoder accepts if the frame is damaged or too big."""
    try:
        size = zstandard.frame_content_size(frame)
        # The size comes from the header of the frame, and is -1 where it is missing. Without it, nobody knows
        # how much memory the frame would take.
        if not 0 < size <= MOST_COLUMN_BYTES:
            return _DAMAGED if size else b""
        return decompressor.decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError:
        return _DAMAGED


_DAMAGED = b"\x07"  # a field type that protobuf does not have
