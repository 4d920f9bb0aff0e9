"""How long the batches of a run take, as far as the debugger has to know."""

from __future__ import annotations

# In batches that take longer, a run can also be paused at their phases while it runs.
LONG_SECS = 0.04


class Pace:
    """Whether batches are long.

    In short batches a pause can wait for the end of the batch, and hooks at its phases would cost more than
    everything else.
    """

    def __init__(self, now: float) -> None:
        self.is_slow = False
        self._ended_at = now
        self._last_secs = 0.0

    def end_batch(self, now: float) -> bool:
        """Note that a batch ends; return whether batches have become long, or short."""
        was_slow = self.is_slow
        secs, self._ended_at = now - self._ended_at, now
        self.is_slow = min(secs, self._last_secs) > LONG_SECS  # one long batch alone does not count
        self._last_secs = secs
        return self.is_slow != was_slow
