"""Packing of records into values: the block of steps, its coarser levels of detail, and the mirror."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from tb_netdebug.core.eventlog.writer import png, values
from tb_netdebug.core.eventlog.writer.backlog import Dropped, Extra, PendingPayload, Picture, record_bytes
from tb_netdebug.core.eventlog.writer.mirror import Mirror, MirrorOptions
from tb_netdebug.core.eventlog.writer.run_log import RunLog
from tb_netdebug.core.eventlog.writer.values import SummaryPoint
from tb_netdebug.core.records.block import encode_block
from tb_netdebug.core.records.detail import DetailBlocks
from tb_netdebug.core.records.step import StepRecord


class Packed(NamedTuple):
    """The values of one batch, and the number of steps and samples in them."""

    values: list[SummaryPoint]
    steps: int
    samples: int


class Packer:
    """The packer of batches for `Worker`; what it cannot pack is dropped and counted, see `take_errors`."""

    def __init__(self, *, rank: int, mirror: MirrorOptions | None) -> None:
        self.dropped = Dropped()
        self._rank = rank
        self._mirror = Mirror(mirror) if mirror is not None else None
        self._levels = DetailBlocks(rank=rank)
        self._last_step = 0
        self._last_wall_time = time.time()
        self._told = (0, 0)
        self._errors: list[Exception] = []

    def pack(self, items: Sequence[StepRecord | Extra], *, dropped: Dropped, log: RunLog) -> Packed:
        """Return the values of one batch; payloads to be kept are added to the preamble of `log`."""
        refused = replace(self.dropped)
        records = [self._with_sane_time(item) for item in items if isinstance(item, StepRecord)]
        if records:
            records[-1] = self._with_counts(records[-1], dropped)
        packed = self._steps(records, log.written_bytes)
        for item in items:
            if isinstance(item, Extra):
                packed += self._guarded(self._extra, item.content, log)
        return Packed(
            packed,
            steps=len(records) - (self.dropped.steps - refused.steps),
            samples=sum(len(record.samples) for record in records) - (self.dropped.samples - refused.samples),
        )

    def rest(self, *, dropped: Dropped) -> list[SummaryPoint]:
        """Return what only the end of the run completes: counts not yet recorded, open levels of detail."""
        packed = []
        last = max(dropped, self.dropped, key=lambda some: some.last_step)
        if self._counts(dropped) != self._told and last.steps:
            # The counts go into the last step that was dropped, so no step occurs twice.
            record = StepRecord(last.last_step, last.last_wall_time)
            packed += self._steps([self._with_counts(self._with_sane_time(record), dropped)], 0)
        return packed + self.end_part()

    def end_part(self) -> list[SummaryPoint]:
        """Return the open levels of detail; a record spanning two files could be read with neither alone."""
        return self._guarded(self._details, self._levels.finish)

    def take_errors(self) -> list[Exception]:
        """Return the errors since the last call."""
        errors, self._errors = self._errors, []
        return errors

    def _steps(self, records: list[StepRecord], log_bytes: int) -> list[SummaryPoint]:
        packed = []
        for some, block in self._blocks(records):
            self._last_step = max(self._last_step, some[-1].step)
            packed.append(self._own("steps", block))
            packed += self._guarded(self._details, partial(self._levels.add, some))
            if self._mirror is not None:
                packed += self._guarded(self._mirror.scalars, some)
                packed += self._guarded(self._mirror.histograms, some, log_bytes)
        return packed

    def _blocks(self, records: list[StepRecord]) -> list[tuple[list[StepRecord], bytes]]:
        """Return one block or, when a record cannot be encoded, blocks of the others, found by bisection."""
        if not records:
            return []
        try:
            return [(records, encode_block(records, rank=self._rank))]
        except Exception as error:  # whatever it is, it must not reach the training
            if len(records) == 1:
                self._errors.append(error)
                self.dropped.add(records[0], record_bytes(records[0]))
                return []
        middle = len(records) // 2
        return self._blocks(records[:middle]) + self._blocks(records[middle:])

    def _details(self, payloads: Callable[[], list[tuple[int, bytes]]]) -> list[SummaryPoint]:
        return [self._own(f"detail/{level}", data) for level, data in payloads()]

    def _own(self, name: str, data: bytes, *, listed: bool = False) -> SummaryPoint:
        return values.payload(name, self._last_step, self._last_wall_time, data, listed=listed)

    def _extra(self, content: Picture | PendingPayload, log: RunLog) -> list[SummaryPoint]:
        if isinstance(content, Picture):
            step = max(0, content.step)
            if self._mirror is None or not self._mirror.rises(content.name, step):
                return []
            wall_time = self._finite(content.wall_time)
            return [values.image(content.name, step, wall_time, png.encode(content.pixels))]
        value = self._own(content.name, content.data, listed=content.keep)
        if content.keep:
            log.preamble[content.name] = value
            if log.path is None:  # the next file begins with it
                return []
        return [value]

    def _guarded(self, make: Callable[..., Iterable[SummaryPoint]], *arguments: object) -> list[SummaryPoint]:
        """Return what `make` gives, or nothing if it fails: an addition must not cost its steps."""
        try:
            return list(make(*arguments))
        except Exception as error:  # the worker reports it
            self._errors.append(error)
            return []

    def _with_sane_time(self, record: StepRecord) -> StepRecord:
        """Replace a non-finite time by the last finite one: TensorBoard would give up the whole file."""
        wall_time = self._finite(record.wall_time)
        return record if wall_time == record.wall_time else replace(record, wall_time=wall_time)

    def _finite(self, wall_time: float) -> float:
        if math.isfinite(wall_time):
            self._last_wall_time = wall_time
        return self._last_wall_time

    def _with_counts(self, record: StepRecord, dropped: Dropped) -> StepRecord:
        counts = self._counts(dropped)
        if counts == self._told:
            return record
        # Recorded only when they change: a run that drops nothing has no such scalars.
        self._told = counts
        told = {"writer/dropped_steps": float(counts[0]), "writer/dropped_samples": float(counts[1])}
        return replace(record, scalars={**record.scalars, **told})

    def _counts(self, dropped: Dropped) -> tuple[int, int]:
        return dropped.steps + self.dropped.steps, dropped.samples + self.dropped.samples
