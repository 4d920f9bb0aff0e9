"""The queue of records between the training thread and the writer's thread, bounded in bytes."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records.step import StepRecord

# The memory of the Python objects around the numbers, measured with sys.getsizeof on 64-bit CPython.
_RECORD_BYTES = 400
_SCALAR_BYTES = 60
_SAMPLE_BYTES = 150
# A quarter of the queue is reserved for scalars: they are small, and the last thing to be dropped.
_SHARE_OF_SAMPLES = 0.75


@dataclass(slots=True)
class Dropped:
    """Exact counts of what was dropped. A step that lost only its samples counts in `samples` alone."""

    steps: int = 0
    samples: int = 0
    bytes: int = 0
    last_step: int = 0
    last_wall_time: float = 0.0

    def add(self, record: StepRecord, size: int) -> None:
        """Count a record that is lost as a whole."""
        self.steps += 1
        self.samples += len(record.samples)
        self.bytes += size
        self.last_step, self.last_wall_time = record.step, record.wall_time


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    step: int
    wall_time: float
    pixels: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class PendingPayload:
    """Bytes for the tag `netdebug/<name>`; with `keep` they are repeated at the start of every file."""

    name: str
    data: bytes
    wall_time: float
    keep: bool


@dataclass(frozen=True, slots=True)
class Extra:
    """A picture or payload in the queue of steps; if dropped, it counts as a sample."""

    content: Picture | PendingPayload
    size: int


class Batch(NamedTuple):
    items: list[StepRecord | Extra]
    size: int


def record_bytes(record: StepRecord) -> int:
    """Estimate the memory that a record holds; cheap enough for the training thread."""
    if not record.samples:
        return _RECORD_BYTES + _SCALAR_BYTES * len(record.scalars)
    samples = sum(
        [
            len(sample.summary) if sample.units is None else len(sample.summary) + len(sample.units.active)
            for sample in record.samples
        ]
    )
    return _RECORD_BYTES + _SCALAR_BYTES * len(record.scalars) + _SAMPLE_BYTES * len(record.samples) + samples


class Backlog:
    """A bounded queue whose `put` never waits for the one thread that calls `take` and `release`.

    Only producers share the lock. A signal handler that closes the writer may interrupt `put` on the same
    thread: if the writer's thread needed the lock as well, each would wait for the other.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.dropped = Dropped()
        self.limit_bytes = limit_bytes
        self._items: deque[tuple[StepRecord | Extra, int]] = deque()
        self._producers = threading.RLock()  # reentrant for signal handlers on a producer's thread
        # Each counter is changed by one side only, so the consumer needs no lock.
        self._accepted_bytes = 0
        self._released_bytes = 0

    @property
    def held_bytes(self) -> int:
        """The bytes put and not yet released, including those being written."""
        return self._accepted_bytes - self._released_bytes

    @property
    def waiting(self) -> bool:
        return bool(self._items)

    def put(self, record: StepRecord) -> None:
        """Queue the record or, if it does not fit, its scalars alone; count what is dropped."""
        size = record_bytes(record)
        with self._producers:
            if self._fits(record, size):
                self._accepted_bytes += size
                self._items.append((record, size))
                return
            if record.samples:
                self.dropped.samples += len(record.samples)
                record, whole_size = replace(record, samples=[]), size
                size = record_bytes(record)
                self.dropped.bytes += whole_size - size
                if self._fits(record, size):
                    self._accept(record, size)
                    return
            self.dropped.add(record, size)

    def put_extra(self, extra: Extra) -> bool:
        """Queue a picture or payload; return whether it fits."""
        with self._producers:
            fits = self.held_bytes + extra.size <= self.limit_bytes
            if fits:
                self._accept(extra, extra.size)
            else:
                self._drop_extra(extra)
            return fits

    def take(self, most_bytes: int) -> Batch:
        """Return the oldest items, at least one if there is any; they count as held until `release`."""
        items: list[StepRecord | Extra] = []
        taken = 0
        while self._items and (not items or taken + self._items[0][1] <= most_bytes):
            item, size = self._items.popleft()
            items.append(item)
            taken += size
        return Batch(items, taken)

    def release(self, size: int) -> None:
        """Free the room of a batch that was written or given up."""
        self._released_bytes += size

    def count_dropped(self, batch: Batch) -> None:
        """Give up a batch that was taken, and count its items as dropped."""
        for item in batch.items:
            if isinstance(item, StepRecord):
                self.dropped.add(item, record_bytes(item))
            else:
                self._drop_extra(item)
        self.release(batch.size)

    def give_up(self, batch: Batch) -> None:
        """Give up a batch that was taken, and everything still queued."""
        while batch.items:
            self.count_dropped(batch)
            batch = self.take(1 << 20)

    def _drop_extra(self, extra: Extra) -> None:
        self.dropped.samples += 1
        self.dropped.bytes += extra.size

    def _fits(self, record: StepRecord, size: int) -> bool:
        share = _SHARE_OF_SAMPLES if record.samples else 1.0
        return self.held_bytes + size <= self.limit_bytes * share

    def _accept(self, item: StepRecord | Extra, size: int) -> None:
        self._accepted_bytes += size
        self._items.append((item, size))
