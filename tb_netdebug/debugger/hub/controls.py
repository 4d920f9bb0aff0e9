"""Which clients attend which trainings, and who of them holds the controls of each.

A training is what its ranks have in common: all of them are held together. Nothing here knows the time.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tb_netdebug.debugger.hub.calls import BUSY, HELD, CallError

# Who has not attended for so long has left.
AWAY_SECS = 10.0
MOST_CLIENTS = 500


@dataclass(slots=True)
class Visitor:
    """A tab of a browser, or a terminal; `label` is what others see of it."""

    name: str
    label: str
    seen: float
    trainings: frozenset[str]


class Controls:
    """For one thread at a time."""

    def __init__(self) -> None:
        self._visitors: dict[str, Visitor] = {}
        self._holders: dict[str, str] = {}

    def attend(self, name: str, label: str, trainings: Collection[str], *, now: float) -> None:
        """From now on these, and no others. Raises CallError when there are too many clients."""
        self._make_room(name)
        self._visitors[name] = Visitor(name, label, now, frozenset(trainings))
        self._free()

    def drop_in(self, name: str, training: str, *, now: float) -> None:
        """Whoever asks something is there. Raises CallError when there are too many clients."""
        self._make_room(name)
        visitor = self._visitors.setdefault(name, Visitor(name, "", now, frozenset()))
        visitor.seen = now
        visitor.trainings |= {training}

    def sweep(self, *, now: float) -> None:
        """Those who have left let go of everything."""
        gone = [each.name for each in self._visitors.values() if now >= each.seen + AWAY_SECS]
        for name in gone:
            del self._visitors[name]
        if gone:
            self._free()

    # ---- the controls

    def claim(self, name: str, training: str) -> None:
        """First come, first served. Raises CallError when somebody else has them."""
        holder = self.holder(training)
        if holder is not None and holder.name != name:
            who = holder.label or "Another window"
            raise CallError(HELD, f"{who} has the controls of this training. Take them over to go on.")
        self._holders[training] = name

    def take(self, name: str, training: str) -> None:
        """From whoever has them; for one who attends that training."""
        if training in self._visitors[name].trainings:
            self._holders[training] = name

    def release(self, name: str, training: str) -> None:
        if self._holders.get(training) == name:
            del self._holders[training]

    def holder(self, training: str) -> Visitor | None:
        return self._visitors.get(self._holders.get(training, ""))

    # ---- who is there

    def count(self, training: str) -> int:
        return sum(training in each.trainings for each in self._visitors.values())

    def next_departure(self) -> float | None:
        """When the next one would have been away for too long."""
        return min((each.seen + AWAY_SECS for each in self._visitors.values()), default=None)

    def _make_room(self, name: str) -> None:
        if name not in self._visitors and len(self._visitors) >= MOST_CLIENTS:
            raise CallError(BUSY, f"{MOST_CLIENTS} windows attend trainings already: close some of them.")

    def _free(self) -> None:
        for training, name in list(self._holders.items()):
            if name not in self._visitors or training not in self._visitors[name].trainings:
                del self._holders[training]
