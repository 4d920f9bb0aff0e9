"""How long a step was held up because its threads stood in the queue for a processor, where that is counted.

Not the training's thread alone: TensorFlow, OpenMP and autograd work on threads of their own, and it only
waits for them.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

# Linux: of each thread nanoseconds on a processor, nanoseconds in the queue for one, turns.
THREADS = Path("/proc/self/task")
COUNTS = "schedstat"
# Shorter steps are nobody's outlier, and neither are those that take about as long as all others.
LONG_SECS = 0.1
LONG_FACTOR = 2.0
SMOOTHING = 0.1
# A reading takes 6 µs a thread. Between two of them short steps may have waited as well: at most for so long,
# or, where there are many threads, for as long as it takes until a reading costs less than 1 / COSTS_APART.
READINGS_APART_SECS = 0.05
COSTS_APART = 1000.0


class Turns(NamedTuple):
    """Seconds on a processor, and in the queue for one."""

    worked: float
    queued: float


class ProcessorWait:
    """Asked at the end of each step, on the thread that trains."""

    __slots__ = ("_apart_secs", "_is_counted", "_read_at", "_turns", "_usual_secs")

    def __init__(self) -> None:
        self._is_counted = True
        self._read_at = float("-inf")
        self._apart_secs = READINGS_APART_SECS
        self._turns: dict[str, Turns] = {}
        self._usual_secs = 0.0

    def of_step(self, secs: float, *, ended: float) -> float | None:
        """Seconds of a long step that it would not have taken, had all its threads been let onto a processor
        at once; None when it is not known."""
        if not self._is_counted:
            return None
        is_long = secs >= max(LONG_SECS, LONG_FACTOR * self._usual_secs)
        waited = self._waited(secs, ended=ended, is_long=is_long)
        self._follow(secs if waited is None else secs - waited)
        return waited

    def _waited(self, secs: float, *, ended: float, is_long: bool) -> float | None:
        passed = ended - self._read_at
        if not (is_long or passed >= self._apart_secs):
            return None
        before, self._turns, self._read_at = self._turns, self._read(), ended
        if not is_long or not before or not self._turns:
            return None
        return min(held_up(before, self._turns, secs=passed), secs)

    def _follow(self, secs: float) -> None:
        """One that is very long says little about what is usual, and what it has waited says nothing."""
        bound = LONG_SECS + LONG_FACTOR * self._usual_secs
        self._usual_secs += (min(secs, bound) - self._usual_secs) * SMOOTHING

    def _read(self) -> dict[str, Turns]:
        """Of each thread, ours too: they may hold Python's lock. Empty where the system does not count."""
        began = perf_counter()
        try:
            with os.scandir(THREADS) as threads:
                found = {each.name: turns for each in threads if (turns := turns_of(each.path)) is not None}
        except (OSError, ValueError, IndexError):
            found = {}
        self._is_counted = bool(found)
        self._apart_secs = max(READINGS_APART_SECS, COSTS_APART * (perf_counter() - began))
        return found


def turns_of(thread: str) -> Turns | None:
    """None for one that has ended meanwhile."""
    try:
        with FileIO(f"{thread}/{COUNTS}") as file:
            numbers = file.read(64).split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Turns(int(numbers[0]) / 1e9, int(numbers[1]) / 1e9)


def held_up(before: dict[str, Turns], after: dict[str, Turns], *, secs: float) -> float:
    """Of so many seconds those in which the work stood still.

    Threads that work one after the other wait one after the other: their times in the queue add up. Threads
    that work side by side wait side by side; of what all of them wanted, the same share was withheld.
    """
    nothing = Turns(0.0, 0.0)
    gone = [(now, before.get(name, nothing)) for name, now in after.items()]
    worked = sum(max(now.worked - then.worked, 0.0) for now, then in gone)
    queued = sum(max(now.queued - then.queued, 0.0) for now, then in gone)
    wanted = worked + queued
    return queued * min(1.0, secs / wanted) if wanted else 0.0
