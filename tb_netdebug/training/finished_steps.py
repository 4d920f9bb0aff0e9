"""Passes finished steps on, in order, once all their numbers have arrived."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

from tb_netdebug.core.eventlog.writer.event_writer import EventWriter
from tb_netdebug.core.records.step import Sample, StepRecord
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.governor import STEPS_AROUND_TROUBLE, Governor
from tb_netdebug.recording.trouble import Trouble
from tb_netdebug.training.console import ConsoleLine
from tb_netdebug.training.flight_recorder import FlightRecorder

# A device that has not answered for this many steps is no longer waited for.
MOST_STEPS_IN_FLIGHT = 64

# The step that numbers belong to, with the numbers and samples that a device has sent late.
Late = tuple[int, dict[str, float], list[Sample]]


class FinishedSteps:
    """The way of a finished step to the log, the console, the other ranks and the trouble detector.

    `in_flight` are the steps that wait for a device, the oldest first.
    """

    def __init__(
        self,
        writer: EventWriter,
        flight: FlightRecorder,
        governor: Governor,
        collector: StepCollector,
        console: ConsoleLine | None,
    ) -> None:
        self._writer = writer
        self._flight = flight
        self._governor = governor
        self._collector = collector
        self._console = console
        self._trouble = Trouble()
        self.in_flight: deque[StepRecord] = deque()

    def deliver(self, late: Iterable[Late], *, wait: bool) -> None:
        """Complete the steps whose numbers have arrived from a device, and put them in order."""
        by_step = {record.step: record for record in self.in_flight}
        newest = -1
        for step, scalars, samples in late:
            newest = max(newest, step)
            record = by_step.get(step)
            if record is None:
                if scalars or samples:  # it was not waited for
                    self._writer.put(StepRecord(step, time.time(), scalars, samples))
            else:
                record.scalars.update(scalars)
                record.samples.extend(samples)
        # Everything up to the newest answer of the device is complete, and goes out in order.
        while self.in_flight and (
            wait or self.in_flight[0].step <= newest or len(self.in_flight) > MOST_STEPS_IN_FLIGHT
        ):
            self.put(self.in_flight.popleft())

    def put(self, record: StepRecord) -> None:
        """Pass on a complete step."""
        if self._collector.agreement is not None:
            self._collector.agreement.note(record)
        if self._trouble.seen(record.scalars) is not None and self._governor.alert():
            # Trouble: the samples around it that were held back are written after all.
            for earlier in self._flight.release(record.step, then=STEPS_AROUND_TROUBLE):
                self._writer.put(earlier)
        elif record.samples:
            self._flight.admit(record)
        self._writer.put(record)
        if self._console is not None:
            self._console.write(record.step, record.scalars)
