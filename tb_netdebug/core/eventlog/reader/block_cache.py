"""A bounded cache of decoded blocks, shared by all runs of a logdir."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence

_OVERHEAD_BYTES = 300  # of the Python objects around the bytes of an entry


class BlockCache:
    """Drops the least recently used entry first. Safe from any thread."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._entries: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, keys: Sequence[Hashable]) -> list[bytes | None]:
        with self._lock:
            found = [self._entries.get(key) for key in keys]
            for key, data in zip(keys, found, strict=True):
                if data is not None:
                    self._entries.move_to_end(key)
        return found

    def put(self, key: Hashable, data: bytes) -> None:
        size = len(data) + _OVERHEAD_BYTES
        if size > self.limit_bytes // 4:  # it would evict everything else
            return
        with self._lock:
            before = self._entries.pop(key, None)
            if before is not None:
                self.held_bytes -= len(before) + _OVERHEAD_BYTES
            self._entries[key] = data
            self.held_bytes += size
            while self.held_bytes > self.limit_bytes:
                _, dropped = self._entries.popitem(last=False)
                self.held_bytes -= len(dropped) + _OVERHEAD_BYTES
