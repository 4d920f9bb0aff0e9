"""Levels of detail: coarser records of a long run, made while it runs (`eventlog/writer/packing.py`).

A record of level 1 stands for 16 steps, one of level 2 for 256, and so on. Tensor samples are counted on
their own: whatever the sampling rate, 16 of them become one of the next level.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tb_netdebug.core.records.detail_block import DetailBlock, decode_detail, encode_detail
from tb_netdebug.core.records.detail_record import (
    DetailRecord,
    DetailSample,
    ScalarRange,
    of_details,
    of_steps,
)
from tb_netdebug.core.records.step import Series, StepRecord

__all__ = [
    "DEPTH",
    "FACTOR",
    "DetailBlock",
    "DetailBlocks",
    "DetailLevels",
    "DetailRecord",
    "DetailSample",
    "ScalarRange",
    "decode_detail",
    "encode_detail",
]

FACTOR = 16
DEPTH = 4


class DetailLevels:
    """A cascade that turns steps, added one by one, into records of every level.

    For each level it holds at most `factor` records and, of each tensor, fewer than `factor` samples that
    wait to be merged and a few that wait for the next record.
    """

    def __init__(self, *, factor: int = FACTOR, depth: int = DEPTH) -> None:
        self._factor = factor
        self._steps: list[StepRecord] = []
        self._rows: list[list[DetailRecord]] = [[] for _ in range(depth)]  # the first one stays empty
        self._tensors = [_TensorLevel(factor) for _ in range(depth)]

    def add(self, record: StepRecord) -> list[DetailRecord]:
        """Add a step and return the records that it completes, the finest level first."""
        step, finest = record.step, self._tensors[0]
        for sample in record.samples:
            merged = finest.add(DetailSample(step, step, 1, sample))
            if merged is not None:
                self._climb(merged, 1)
        self._steps.append(StepRecord(record.step, record.wall_time, record.scalars))
        done: list[DetailRecord] = []
        if len(self._steps) == self._factor:
            done = self._pass_up(self._take_steps())
        return done

    def flush(self) -> list[DetailRecord]:
        """Return the incomplete records at the end of a run, and start anew.

        A record or sample made of a single part is left out: it says no more than the level below.
        """
        done: list[DetailRecord] = []
        for level, tensors in enumerate(self._tensors):
            for part in tensors.flush():
                self._climb(part, level + 1)
            row = self._rest(level)
            if row is None and tensors.ready:
                row = _carrier(level + 1, tensors.ready)
            if row is not None:
                done += self._pass_up(row)
        self._rows = [[] for _ in self._rows]
        return done

    def _climb(self, part: DetailSample, level: int) -> None:
        while level < len(self._tensors):
            merged = self._tensors[level].add(part)
            if merged is None:
                return
            part, level = merged, level + 1

    def _pass_up(self, row: DetailRecord) -> list[DetailRecord]:
        """Return the record, and those of higher levels that it completes."""
        row.samples = self._tensors[row.level - 1].take()
        # The top level has no parent, and a record of zero steps has nothing to merge.
        if row.level == len(self._rows) or not row.steps:
            return [row]
        siblings = self._rows[row.level]
        # Samples climb on their own (`_climb`), so the parent must not get them a second time.
        siblings.append(replace(row, samples=[]))
        if len(siblings) < self._factor:
            return [row]
        self._rows[row.level] = []
        return [row, *self._pass_up(of_details(siblings))]

    def _take_steps(self) -> DetailRecord:
        steps, self._steps = self._steps, []
        return of_steps(steps)

    def _rest(self, level: int) -> DetailRecord | None:
        if level == 0:
            steps, self._steps = self._steps, []
            return of_steps(steps) if len(steps) > 1 else None
        rows, self._rows[level] = self._rows[level], []
        return of_details(rows) if len(rows) > 1 else None


class DetailBlocks:
    """`DetailLevels` as payloads `(level, bytes)` of several records each, so that names are stored once."""

    def __init__(self, *, rank: int = 0, rows: int = FACTOR, levels: DetailLevels | None = None) -> None:
        self._rank = rank
        self._rows = rows
        self._levels = levels or DetailLevels()
        self._waiting: dict[int, list[DetailRecord]] = {}

    def add(self, records: Iterable[StepRecord]) -> list[tuple[int, bytes]]:
        """Add steps and return the payloads that they complete."""
        for record in records:
            self._wait(self._levels.add(record))
        return self._payloads(self._rows)

    def finish(self) -> list[tuple[int, bytes]]:
        """Return everything that still waits, at the end of a run."""
        self._wait(self._levels.flush())
        return self._payloads(1)

    def _wait(self, records: Sequence[DetailRecord]) -> None:
        for record in records:
            self._waiting.setdefault(record.level, []).append(record)

    def _payloads(self, least: int) -> list[tuple[int, bytes]]:
        full = sorted(level for level, records in self._waiting.items() if len(records) >= least)
        return [(level, encode_detail(self._waiting.pop(level), rank=self._rank)) for level in full]


class _TensorLevel:
    """The samples of one level, tensor by tensor; `factor` of them become one, which waits for a record."""

    def __init__(self, factor: int) -> None:
        self._factor = factor
        self._parts: dict[tuple[str, int], list[DetailSample]] = {}
        # Samples share a few Series objects: finding one by identity is faster than hashing its name.
        self._known: dict[int, tuple[Series, list[DetailSample]]] = {}
        self.ready: list[DetailSample] = []

    def add(self, part: DetailSample) -> DetailSample | None:
        series = part.sample.series
        known = self._known.get(id(series))
        parts = known[1] if known is not None and known[0] is series else self._parts_of(series)
        parts.append(part)
        if len(parts) < self._factor:
            return None
        merged = DetailSample.of(parts)
        parts.clear()
        self.ready.append(merged)
        return merged

    def _parts_of(self, series: Series) -> list[DetailSample]:
        parts = self._parts.setdefault((series.name, int(series.kind)), [])
        if len(self._known) > 2 * len(self._parts):  # a caller makes a new Series for every sample
            self._known.clear()
        self._known[id(series)] = series, parts
        return parts

    def flush(self) -> list[DetailSample]:
        rest = [DetailSample.of(parts) for parts in self._parts.values() if len(parts) > 1]
        self._parts.clear()
        self._known.clear()
        self.ready += rest
        return rest

    def take(self) -> list[DetailSample]:
        ready, self.ready = self.ready, []
        return ready


def _carrier(level: int, samples: Sequence[DetailSample]) -> DetailRecord:
    """Return a record of zero steps for samples that are complete when no record is."""
    first = min(part.first_step for part in samples)
    last = max(part.last_step for part in samples)
    return DetailRecord(level, first, last, 0.0, 0.0, 0)
