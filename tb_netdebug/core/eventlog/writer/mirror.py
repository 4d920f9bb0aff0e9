"""The mirror of records for TensorBoard's own dashboards: scalars, and histograms at a low rate."""

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

# The estimated size of a histogram in the file: three doubles a bucket, and the event around them.
_BYTES_PER_BUCKET = 24
_BYTES_PER_EVENT = 120


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """How much of the records is repeated as ordinary summaries; `histogram_secs=None` means no histograms.

    A scalar is repeated in full for its first points, then once per block, about five times a second:
    TensorBoard keeps 1000 points and reloads every five seconds.
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
    """The selection of values to mirror.

    Steps strictly ascend within a tag: TensorBoard takes a step back for a restart and erases earlier points.
    """

    def __init__(self, options: MirrorOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._past_start: set[str] = set()
        self._points: dict[str, int] = {}
        self._last_steps: dict[str, int] = {}
        self._histogram_secs: dict[Series, float] = {}
        self._histogram_bytes = 0

    def rises(self, tag: str, step: int) -> bool:
        """Return whether `step` may be written to the tag, and remember it if so."""
        if step <= self._last_steps.get(tag, -1):
            return False
        self._last_steps[tag] = step
        return True

    def scalars(self, records: Sequence[StepRecord]) -> Iterator[SummaryPoint]:
        """Yield the first points of each scalar, then the newest one of each batch."""
        newest: dict[str, int] = {}
        early: set[tuple[int, str]] = set()
        for position, record in enumerate(records):
            newest.update(dict.fromkeys(record.scalars, position))
            early.update((position, name) for name in record.scalars.keys() - self._past_start)
        # By rising position: `rises` refuses a step once a later one of the tag was written.
        for position, name in sorted(early | {(position, name) for name, position in newest.items()}):
            if position != newest[name] and name in self._past_start:
                continue
            record = records[position]
            if self._admits(name) and self.rises(name, record.step):
                yield values.scalar(name, record.step, record.wall_time, record.scalars[name])

    def histograms(self, records: Sequence[StepRecord], log_bytes: int) -> Iterator[SummaryPoint]:
        """Yield histograms that are due, up to their share of the `log_bytes` written so far."""
        for record, sample in self._due(records):
            if self._histogram_bytes >= self._budget(log_bytes):
                return
            self._histogram_secs[sample.series] = self._clock()  # also for a sample without a finite value
            summary = Summary.unpack(sample.summary)
            tag = f"{Kind(sample.series.kind).name.lower()}/{sample.series.name}"
            if not summary.finite or not self.rises(tag, record.step):
                continue
            buckets = rows_of(summary, self._options.buckets)
            self._histogram_bytes += len(buckets) * _BYTES_PER_BUCKET + _BYTES_PER_EVENT
            yield values.histogram(tag, record.step, record.wall_time, buckets)

    def _due(self, records: Sequence[StepRecord]) -> list[tuple[StepRecord, Sample]]:
        """Return the newest sample of each tensor that is due, the longest wait first."""
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
        """Return whether the name is on the list, and count its first points."""
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
    """Return the newest sample of each series, in the order of their first samples."""
    # Samples share a few Series objects, and hashing one by value is slow: group them by identity first.
    last = {id(sample.series): (record, sample) for record in records for sample in record.samples}
    newest: dict[Series, tuple[StepRecord, Sample]] = {}
    # Several objects may name the same series, so equal ones are joined here.
    for record, sample in last.values():
        known = newest.get(sample.series)
        if known is None or known[0].step < record.step:
            newest[sample.series] = record, sample
    return newest


def rows_of(summary: Summary, buckets: int) -> NDArray[np.float64]:
    """Return left edge, right edge and count of at most `buckets` buckets, for the finite values."""
    made = histogram(summary, buckets=buckets)
    if made is None:
        return np.empty((0, 3))
    if made.min == made.max:  # TensorBoard gives a constant tensor a bucket of width 1
        return np.array([[made.min - 0.5, made.max + 0.5, made.num]])
    inner = made.bucket_limit[:-1]
    return np.stack([[made.min, *inner], [*inner, made.max], made.bucket], axis=1)
