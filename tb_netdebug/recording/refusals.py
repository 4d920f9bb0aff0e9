"""Record what is not watched and why: each reason is reported once and kept for the run's description."""

from __future__ import annotations

from tb_netdebug.recording.guard import Guard

MOST_NAMES = 1000


class Refusals:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._reasons: dict[str, str] = {}

    def refuse(self, name: str, reason: str) -> None:
        """Report that `name` is not watched, unless the same reason was reported for another name."""
        is_news = reason not in self._reasons.values()
        if self.note(name, reason) and is_news:
            self._guard.say(f"NetDebug: {name} is not watched: {reason}.")

    def note(self, name: str, reason: str) -> bool:
        """Record it for the description only; return whether the name is new."""
        if name in self._reasons or len(self._reasons) > MOST_NAMES:
            return False
        self._reasons[name] = reason
        return True

    def sentences(self) -> list[str]:
        return [f"{name} is not watched: {reason}" for name, reason in self._reasons.items()]
