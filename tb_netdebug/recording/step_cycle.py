"""Decide when a step is over in a run that has several optimizers."""

from __future__ import annotations

from collections.abc import Iterable

# A critic may step this often before its generator does; an optimizer that is silent for longer is not waited
# for.
MOST_STEPS_OF_ONE = 8


class StepCycle:
    """Ends a step when each of the participating optimizers has stepped at least once.

    Participants are learned: an optimizer that has not stepped while another did so eight times is left out
    until it steps alone as often. `alone` are optimizers of parameters that others move, too (one per phase
    of a run): each of their steps ends a step of the run.
    """

    def __init__(self, members: Iterable[int], *, alone: Iterable[int] = ()) -> None:
        self._alone = set(alone)
        self._taking_part = set(members) - self._alone
        self._seen: dict[int, int] = {}

    def stepped(self, member: int) -> bool:
        """Count a step of an optimizer; return whether the run's step is over now."""
        times = self._seen[member] = self._seen.get(member, 0) + 1
        if member in self._alone or (self._taking_part and self._taking_part <= self._seen.keys()):
            self._seen.clear()
            return True
        if times < MOST_STEPS_OF_ONE:
            return False
        # The others have been silent for too long: continue with those that have stepped.
        self._taking_part = set(self._seen)
        self._seen.clear()
        return True

    def join(self, member: int) -> None:
        """Add an optimizer created later, of parameters that are trained already."""
        self._alone.add(member)

    def leave(self, member: int) -> None:
        """Remove an optimizer that no longer exists."""
        self._taking_part.discard(member)
        self._alone.discard(member)
        self._seen.pop(member, None)
