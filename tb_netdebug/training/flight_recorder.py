"""Keeps the samples of the last steps in memory until something happens."""

from __future__ import annotations

from collections import deque

from tb_netdebug.core.records.step import Sample, StepRecord

# Whatever the number of steps and tensors asked for, the recorder holds no more than this.
MOST_BYTES = 64 << 20


class FlightRecorder:
    """Holds back samples that the log has no room for; `release` returns those of the last steps.

    A log that took every sample would grow by gigabytes a day. So samples are written at an average of
    `bytes_per_sec` (the first `burst_bytes` at once), and in between they are only kept here.
    """

    def __init__(
        self, steps: int, *, bytes_per_sec: float | None, burst_bytes: float, most_bytes: int = MOST_BYTES
    ) -> None:
        self._steps = steps
        self._bytes_per_sec = bytes_per_sec
        self._burst_bytes = burst_bytes
        self._allowance = burst_bytes
        self._last_secs: float | None = None
        self._most_bytes = most_bytes
        self._kept: deque[StepRecord] = deque()
        self._kept_bytes = 0
        self._open_until = 0

    def admit(self, record: StepRecord) -> None:
        """Take the samples out of a record if the log has no room for them."""
        if not record.samples or record.step < self._open_until or self._is_affordable(record):
            return
        self._keep(StepRecord(record.step, record.wall_time, {}, record.samples))
        record.samples = []

    def release(self, step: int, *, then: int = 0) -> list[StepRecord]:
        """Return the samples held back in the last steps up to this one, oldest first, to be written now.

        The samples of the `then` steps after it are not held back.
        """
        self._open_until = step + 1 + then
        released = [record for record in self._kept if record.step > step - self._steps]
        self._kept.clear()
        self._kept_bytes = 0
        return released

    def _is_affordable(self, record: StepRecord) -> bool:
        if self._bytes_per_sec is None:
            return True
        passed = record.wall_time - (self._last_secs if self._last_secs is not None else record.wall_time)
        self._last_secs = record.wall_time
        self._allowance = min(self._allowance + max(passed, 0.0) * self._bytes_per_sec, self._burst_bytes)
        # The allowance may fall below 0 by the samples of one step; that is paid off first.
        if self._allowance <= 0:
            return False
        self._allowance -= size_of(record.samples)
        return True

    def _keep(self, record: StepRecord) -> None:
        self._kept.append(record)
        self._kept_bytes += size_of(record.samples)
        oldest = record.step - self._steps
        while self._kept and (self._kept[0].step <= oldest or self._kept_bytes > self._most_bytes):
            self._kept_bytes -= size_of(self._kept.popleft().samples)


def size_of(samples: list[Sample]) -> int:
    """Return roughly what samples take in the log: summaries shrink to a quarter (3.4-fold in make demo)."""
    return sum(len(sample.summary) for sample in samples) // 4
