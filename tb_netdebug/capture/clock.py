"""Where a step's time goes, as the host sees it."""

from __future__ import annotations

import time

now = time.perf_counter


class StepClock:
    """Adds up the phases of one step from the moments at which they begin and end.

    Work that an accelerator does asynchronously counts where the host waits for it.
    """

    __slots__ = ("_began", "_first_forward", "_started", "spent")

    def __init__(self) -> None:
        self._began = now()
        self._first_forward: float | None = None
        self._started: dict[str, float] = {}
        self.spent: dict[str, float] = {}

    def start(self, phase: str) -> None:
        moment = now()
        if phase == "forward" and self._first_forward is None:
            self._first_forward = moment
        self._started[phase] = moment

    def stop(self, phase: str) -> None:
        """Without a start, or after an exception in between, nothing is added."""
        started = self._started.pop(phase, None)
        if started is not None:
            self.spent[phase] = self.spent.get(phase, 0.0) + now() - started

    def finish(self) -> dict[str, float]:
        """The step's times in seconds, and a fresh start for the next one."""
        moment = now()
        times = {f"time/{phase}": secs for phase, secs in self.spent.items()}
        if self._first_forward is not None:
            times["time/data"] = self._first_forward - self._began
        times["time/step"] = moment - self._began
        self._began = moment
        self._first_forward = None
        self._started.clear()
        self.spent = {}
        return times
