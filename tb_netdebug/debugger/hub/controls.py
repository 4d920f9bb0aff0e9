"""Which clients attend which runs, and which of them holds the controls of each.

All ranks of a run are held together. No clock is read here: callers pass `now`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tb_netdebug.debugger.hub.calls import BUSY, HELD, CallError

# A client that has not attended for this long has left.
AWAY_SECS = 10.0
MOST_CLIENTS = 500


@dataclass(slots=True)
class Visitor:
    """A client, either a browser tab or a terminal; others see its `label`."""

    name: str
    label: str
    seen: float
    trainings: frozenset[str]


class Controls:
    """The clients and the holders of the controls. Not thread-safe: the hub calls it under its lock."""

    def __init__(self) -> None:
        self._visitors: dict[str, Visitor] = {}
        self._holders: dict[str, str] = {}

    def attend(self, name: str, label: str, trainings: Collection[str], *, now: float) -> None:
        """Attend these runs, and no others; raise CallError if there are too many clients."""
        self._make_room(name)
        self._visitors[name] = Visitor(name, label, now, frozenset(trainings))
        self._free()

    def drop_in(self, name: str, training: str, *, now: float) -> None:
        """Count a client that calls a verb as attending; raise CallError if there are too many clients."""
        self._make_room(name)
        visitor = self._visitors.setdefault(name, Visitor(name, "", now, frozenset()))
        visitor.seen = now
        visitor.trainings |= {training}

    def sweep(self, *, now: float) -> None:
        """Remove the clients that have left; they lose all controls."""
        gone = [each.name for each in self._visitors.values() if now >= each.seen + AWAY_SECS]
        for name in gone:
            del self._visitors[name]
        if gone:
            self._free()

    # ---- the controls

    def claim(self, name: str, training: str) -> None:
        """Give the controls to a client, first come, first served; raise CallError if another has them."""
        holder = self.holder(training)
        if holder is not None and holder.name != name:
            who = holder.label or "Another window"
            raise CallError(HELD, f"{who} has the controls of this run. Take them over to continue.")
        self._holders[training] = name

    def take(self, name: str, training: str) -> None:
        """Take over the controls from their holder, for a client that attends the run."""
        if training in self._visitors[name].trainings:
            self._holders[training] = name

    def release(self, name: str, training: str) -> None:
        if self._holders.get(training) == name:
            del self._holders[training]

    def holder(self, training: str) -> Visitor | None:
        return self._visitors.get(self._holders.get(training, ""))

    # ---- clients

    def count(self, training: str) -> int:
        return sum(training in each.trainings for each in self._visitors.values())

    def next_departure(self) -> float | None:
        """Return when the next client will have been away for too long, or None."""
        return min((each.seen + AWAY_SECS for each in self._visitors.values()), default=None)

    def _make_room(self, name: str) -> None:
        if name not in self._visitors and len(self._visitors) >= MOST_CLIENTS:
            raise CallError(BUSY, f"{MOST_CLIENTS} windows are attached to runs already: close some of them.")

    def _free(self) -> None:
        for training, name in list(self._holders.items()):
            if name not in self._visitors or training not in self._visitors[name].trainings:
                del self._holders[training]
