"""One pause of a run: since when and why, and what ends it without a call."""

from __future__ import annotations

from dataclasses import dataclass

from tb_netdebug.debugger.trainer.course import Reason
from tb_netdebug.debugger.trainer.lease import FIRST_VISIT_SECS, SHARE_OF_TIMEOUT, Lease


@dataclass(frozen=True, slots=True)
class CurrentPause:
    """One pause.

    `began` is by the session's clock, `paused_at` is wall time. After `timeout_secs`, other processes of the
    run give up waiting for this one.
    """

    reason: Reason
    began: float
    paused_at: float
    timeout_secs: float | None

    @property
    def resumes_at(self) -> float | None:
        """The wall time at which it ends by itself, if other processes wait."""
        return None if self._longest_secs is None else self.paused_at + self._longest_secs

    def why_it_ends(self, lease: Lease, *, is_attached: bool, now: float) -> str | None:
        """Return why the pause ends now, as a sentence, or None."""
        held = now - self.began
        if self._longest_secs is not None and held >= self._longest_secs:
            return "the training goes on: other processes wait for this one and would soon time out."
        if is_attached:
            return None
        if lease.was_attended:
            return "the training goes on: nobody is attached to its debugger any more."
        if self.reason.kind != "start" and held > FIRST_VISIT_SECS:
            minutes = f"{FIRST_VISIT_SECS / 60:.0f}"
            return f"the training goes on: nobody attached to its debugger for {minutes} minutes."
        return None

    @property
    def _longest_secs(self) -> float | None:
        return SHARE_OF_TIMEOUT * self.timeout_secs if self.timeout_secs else None
