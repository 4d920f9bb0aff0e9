"""The part of a long step for which its threads waited in the run queue for a processor (Linux only).

All threads of the process are read, not just the training thread: TensorFlow, OpenMP and autograd work on
threads of their own, and the training thread only waits for them.
"""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

# Linux, for each thread: nanoseconds on a processor, nanoseconds in the run queue, number of time slices.
THREADS = Path("/proc/self/task")
COUNTS = "schedstat"
# Only outliers need an explanation: a long step takes at least so many seconds and so many times the usual.
LONG_SECS = 0.1
LONG_FACTOR = 2.0
# The usual time follows about the last ten steps.
SMOOTHING = 0.1
# A reading takes 6 µs per thread. The wait of a long step is counted from the reading before it, which may
# include short steps, so there is a reading at least this often. With many threads there are fewer, so that
# they cost less than 1 / COSTS_APART of the time.
READINGS_APART_SECS = 0.05
COSTS_APART = 1000.0
# Failures in a row, such as those of a process that is short of file descriptors for a moment.
MOST_FAILURES = 8


class Turns(NamedTuple):
    """Seconds that a thread spent on a processor, and in the run queue for one."""

    worked: float
    queued: float


class ProcessorWait:
    """The wait for a processor, asked for at the end of each step on the training thread."""

    __slots__ = ("_apart_secs", "_failures", "_is_counted", "_read_at", "_turns", "_usual_secs")

    def __init__(self) -> None:
        self._is_counted = True
        self._failures = 0
        self._read_at = float("-inf")
        self._apart_secs = READINGS_APART_SECS
        self._turns: dict[str, Turns] = {}
        self._usual_secs = 0.0

    def of_step(self, secs: float, *, ended: float) -> float | None:
        """Return how long a long step was held up by waiting for a processor, or None if that is not known.

        These are the seconds that it would have saved, had each of its threads got a processor at once.
        """
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
        """Update the usual duration of a step, which one very long step must not change much."""
        bound = LONG_SECS + LONG_FACTOR * self._usual_secs
        self._usual_secs += (min(secs, bound) - self._usual_secs) * SMOOTHING

    def _read(self) -> dict[str, Turns]:
        """Read the turns of each thread; return an empty dictionary where they cannot be read.

        NetDebug's own threads are included, because they may hold the GIL.
        """
        began = perf_counter()
        try:
            with os.scandir(THREADS) as threads:
                found = {each.name: turns for each in threads if (turns := turns_of(each.path)) is not None}
            self._failures, self._is_counted = 0, bool(found)
        except (FileNotFoundError, ValueError, IndexError):  # this system does not count them
            found, self._is_counted = {}, False
        except OSError:
            found = {}
            self._failures += 1
            self._is_counted = self._failures < MOST_FAILURES
        self._apart_secs = max(READINGS_APART_SECS, COSTS_APART * (perf_counter() - began))
        return found


def turns_of(thread: str) -> Turns | None:
    """Return the turns of a thread, or None if it has ended in the meantime."""
    try:
        with FileIO(f"{thread}/{COUNTS}") as file:
            numbers = file.read(64).split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return Turns(int(numbers[0]) / 1e9, int(numbers[1]) / 1e9)


def held_up(before: dict[str, Turns], after: dict[str, Turns], *, secs: float) -> float:
    """Return for how many of these seconds the work stood still.

    Threads that work one after the other also wait one after the other, so their times in the queue add up.
    Threads that work side by side also wait side by side: the share of the seconds that was lost is the share
    of queueing in all the processor time that they wanted.
    """
    nothing = Turns(0.0, 0.0)
    gone = [(now, before.get(name, nothing)) for name, now in after.items()]
    worked = sum(max(now.worked - then.worked, 0.0) for now, then in gone)
    queued = sum(max(now.queued - then.queued, 0.0) for now, then in gone)
    wanted = worked + queued
    return queued * min(1.0, secs / wanted) if wanted else 0.0
