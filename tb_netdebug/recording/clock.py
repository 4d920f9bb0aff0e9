"""Measure where a step's time goes, as seen by the host."""

from __future__ import annotations

import time

from tb_netdebug.core.machine.processor_wait import ProcessorWait
from tb_netdebug.core.records.scalar_names import PAUSED, TIME_DATA, TIME_STEP, WAITED

now = time.perf_counter


class StepClock:
    """Divides the time of one step into phases.

    `time/data` runs from the end of the last step to the first forward pass, `time/forward` while a model is
    called, `time/backward` from there to whatever comes next (the loss and backward itself), `time/optimizer`
    while an optimizer steps. Hooks on the backward pass would be more exact, but cost more than all other
    hooks. Asynchronous work of an accelerator counts where the host waits for it.
    """

    __slots__ = ("_began", "_held_secs", "_phase", "_queue", "_since", "_times")

    def __init__(self) -> None:
        self._began = self._since = now()
        self._phase: str | None = TIME_DATA
        self._times: dict[str, float] = {}
        self._queue = ProcessorWait()
        self._held_secs = 0.0

    def enter(self, phase: str | None) -> None:
        """End the current phase and begin another; None stands for time that belongs to no phase."""
        moment = now()
        before = self._phase
        if before is not None:
            spent, times = moment - self._since, self._times
            times[before] = times[before] + spent if before in times else spent
        self._phase = phase
        self._since = moment

    def skip(self, secs: float) -> None:
        """Exclude from the step the seconds for which we held up the training."""
        self._held_secs += secs
        self._began += secs
        self._since += secs

    def finish(self) -> dict[str, float]:
        """Return the step's times in seconds, and start the next step."""
        moment = now()
        times, self._times = self._times, {}
        if self._phase is not None:
            times[self._phase] = times.get(self._phase, 0.0) + moment - self._since
        self._phase = TIME_DATA
        if len(times) == 1:
            times = {}  # nothing was seen of the model: all of it would count as data
        times[TIME_STEP] = whole = moment - self._began
        waited = self._queue.of_step(whole, ended=moment)
        if waited is not None:
            times[WAITED] = waited  # for a processor
        if self._held_secs:
            times[PAUSED], self._held_secs = self._held_secs, 0.0
        self._began = self._since = moment
        return times
