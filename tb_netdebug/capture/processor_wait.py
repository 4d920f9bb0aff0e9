"""How long the training's thread stood in the queue for a processor, where the system counts that."""

from __future__ import annotations

from pathlib import Path

# Linux: nanoseconds on a processor, nanoseconds in the queue for one, turns.
COUNTS = Path("/proc/thread-self/schedstat")
# Shorter steps are nobody's outlier: they are not told apart.
LONG_SECS = 0.1
# A reading takes 10 µs. Between two of them short steps may have waited as well: that is at most this much.
READINGS_APART_SECS = 0.05


class ProcessorWait:
    """Asked at the end of each step, on the thread that trains."""

    __slots__ = ("_is_counted", "_read_at", "_total")

    def __init__(self) -> None:
        self._is_counted = True
        self._read_at = float("-inf")
        self._total: float | None = None

    def of_step(self, secs: float, *, ended: float) -> float | None:
        """Seconds of a long step in which other threads had the processors; None when it is not known."""
        is_long = secs >= LONG_SECS
        if not self._is_counted or not (is_long or ended - self._read_at >= READINGS_APART_SECS):
            return None
        before, self._total, self._read_at = self._total, self._read(), ended
        if not is_long or before is None or self._total is None:
            return None
        return min(max(self._total - before, 0.0), secs)

    def _read(self) -> float | None:
        try:
            return int(COUNTS.read_bytes().split()[1]) / 1e9
        except (OSError, ValueError, IndexError):  # another system, or a kernel that does not count
            self._is_counted = False
            return None
