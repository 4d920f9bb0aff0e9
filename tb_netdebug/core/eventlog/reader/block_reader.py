"""Blocks from the files, unpacked, by way of the cache."""

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

# Of one block; the writer makes blocks of about a megabyte.
MOST_COLUMN_BYTES = 32 << 20
# So many blocks are in memory at once, unless they are big.
BATCH_BLOCKS = 256
_BATCH_BYTES = 24 << 20

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

    def read(self, file: FileIndex, places: Integers) -> Iterator[Blocks]:
        """The blocks in their order, some at a time. Raises OSError when the file is gone."""
        entries = file.entries.view[places]
        offsets, lengths = entries["offset"].tolist(), entries["length"].tolist()
        start = 0
        decompressor = zstandard.ZstdDecompressor()  # made anew for each block it would take half of the time
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
        """Blocks that could not be understood although their checksums are right."""
        for at in damaged:
            blocks.file.note_damage(int(blocks.places[at]))

    def sketches(self, blocks: Blocks, parts: Iterable[tuple[int, int, int]]) -> list[bytes]:
        """Parts of the sketches of some blocks: the place in `blocks`, the first byte, and their number."""
        starts = (blocks.entries["offset"] + blocks.entries["ahead"]).tolist()
        with blocks.file.storage.open(blocks.file.path) as opened:
            return [opened.at(starts[at] + start, size) for at, start, size in parts]


def unpacked(decompressor: zstandard.ZstdDecompressor, frame: bytes) -> bytes:
    """Nothing when it is damaged or too big."""
    try:
        size = zstandard.frame_content_size(frame)
        if not 0 < size <= MOST_COLUMN_BYTES:
            return _DAMAGED if size else b""
        return decompressor.decompress(frame, allow_extra_data=False)
    except zstandard.ZstdError:
        return _DAMAGED


_DAMAGED = b"\x07"  # a field type that protobuf does not have
