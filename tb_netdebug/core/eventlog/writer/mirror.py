"""What TensorBoard's own dashboards get to see: scalars, and histograms at a low rate."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.eventlog.writer import values
from tb_netdebug.core.eventlog.writer.values import SummaryPoint
from tb_netdebug.core.records.step import Kind, Sample, Series, StepRecord
from tb_netdebug.core.stats.packed import Summary
from tb_netdebug.core.stats.sketch import histogram

_BYTES_PER_BUCKET = 24
_BYTES_PER_EVENT = 120


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """How much of the records is repeated as ordinary summaries; None for `histogram_secs` means never.

    A scalar is repeated in full for its first points, then once a block, which is about five times a second:
    TensorBoard keeps 1000 points and looks every five seconds.
    """

    scalars: tuple[str, ...] = (
        "loss", "scalar/", "lr/", "gradient_norm", "nonfinite_gradients", "time/step", "memory/",
        "monitor/", "writer/",
    )  # fmt: skip
    first_points: int = 200
    histogram_secs: float | None = 60.0
    histogram_share: float = 0.1
    histogram_allowance_bytes: int = 256 * 1024
    histograms_per_block: int = 16
    buckets: int = 48


class Mirror:
    """Chooses the values; steps rise strictly within a tag, or TensorBoard would erase earlier ones."""

    def __init__(self, options: MirrorOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._past_start: set[str] = set()
        self._points: dict[str, int] = {}
        self._last_steps: dict[str, int] = {}
        self._histogram_secs: dict[Series, float] = {}
        self._histogram_bytes = 0

    def rises(self, tag: str, step: int) -> bool:
        """Whether `step` may be written; remembers it if so."""
        if step <= self._last_steps.get(tag, -1):
            return False
        self._last_steps[tag] = step
        return True

    def scalars(self, records: Sequence[StepRecord]) -> Iterator[SummaryPoint]:
        """The first points of each scalar, then the newest one of each batch."""
        newest: dict[str, int] = {}
        early: set[tuple[int, str]] = set()
        for position, record in enumerate(records):
            newest.update(dict.fromkeys(record.scalars, position))
            early.update((position, name) for name in record.scalars.keys() - self._past_start)
        for position, name in sorted(early | {(position, name) for name, position in newest.items()}):
            if position != newest[name] and name in self._past_start:
                continue
            record = records[position]
            if self._admits(name) and self.rises(name, record.step):
                yield values.scalar(name, record.step, record.wall_time, record.scalars[name])

    def histograms(self, records: Sequence[StepRecord], log_bytes: int) -> Iterator[SummaryPoint]:
        """The tensors whose turn it is, as far as their share of the `log_bytes` written so far goes."""
        for record, sample in self._due(records):
            if self._histogram_bytes >= self._budget(log_bytes):
                return
            self._histogram_secs[sample.series] = self._clock()  # also of one that has nothing to show
            summary = Summary.unpack(sample.summary)
            tag = f"{Kind(sample.series.kind).name.lower()}/{sample.series.name}"
            if not summary.finite or not self.rises(tag, record.step):
                continue
            buckets = rows_of(summary, self._options.buckets)
            self._histogram_bytes += len(buckets) * _BYTES_PER_BUCKET + _BYTES_PER_EVENT
            yield values.histogram(tag, record.step, record.wall_time, buckets)

    def _due(self, records: Sequence[StepRecord]) -> list[tuple[StepRecord, Sample]]:
        """The newest sample of each tensor that waited long enough, the longest wait first."""
        every = self._options.histogram_secs
        if every is None:
            return []
        before = self._clock() - every
        newest = newest_samples(records)
        waits = {series: self._histogram_secs.get(series, -math.inf) for series in newest}
        due = sorted((series for series, since in waits.items() if since <= before), key=waits.__getitem__)
        return [newest[series] for series in due[: self._options.histograms_per_block]]

    def _budget(self, log_bytes: int) -> float:
        return self._options.histogram_allowance_bytes + self._options.histogram_share * log_bytes

    def _admits(self, name: str) -> bool:
        """Whether the name is on the list; counts the points of its start."""
        if name in self._past_start:
            return name in self._points
        listed = self._options.scalars
        wanted = any(name.startswith(entry) if entry.endswith("/") else name == entry for entry in listed)
        if wanted:
            self._points[name] = self._points.get(name, 0) + 1
        if not wanted or self._points[name] >= self._options.first_points:
            self._past_start.add(name)
        return wanted


def newest_samples(records: Sequence[StepRecord]) -> dict[Series, tuple[StepRecord, Sample]]:
    """By series, in the order of their first samples."""
    # The same few objects come again and again, and to hash one of them by value is slow.
    last = {id(sample.series): (record, sample) for record in records for sample in record.samples}
    newest: dict[Series, tuple[StepRecord, Sample]] = {}
    for record, sample in last.values():
        known = newest.get(sample.series)
        if known is None or known[0].step < record.step:
            newest[sample.series] = record, sample
    return newest


def rows_of(summary: Summary, buckets: int) -> NDArray[np.float64]:
    """Left edge, right edge and count of at most `buckets` buckets; finite values only."""
    made = histogram(summary, buckets=buckets)
    if made is None:
        return np.empty((0, 3))
    if made.min == made.max:  # TensorBoard gives a constant tensor a bucket of width 1
        return np.array([[made.min - 0.5, made.max + 0.5, made.num]])
    inner = made.bucket_limit[:-1]
    return np.stack([[made.min, *inner], [*inner, made.max], made.bucket], axis=1)
