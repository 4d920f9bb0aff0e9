"""When a step of a training is over that has several optimizers."""

from __future__ import annotations

from collections.abc import Iterable

# A critic may step this often before its generator does; an optimizer that is silent for longer is not
# waited for any more.
MOST_STEPS_OF_ONE = 8


class StepCycle:
    """A step is over when each of the optimizers that take part has stepped at least once.

    Which ones take part is learned: one that has not stepped while another did so eight times is left out,
    until it steps alone as often. `alone` are optimizers of parameters that others move, too (one for each
    phase of a training): each of their steps is one of the training.
    """

    def __init__(self, members: Iterable[int], *, alone: Iterable[int] = ()) -> None:
        self._alone = set(alone)
        self._taking_part = set(members) - self._alone
        self._seen: dict[int, int] = {}

    def stepped(self, member: int) -> bool:
        """Whether the training's step is over now."""
        times = self._seen[member] = self._seen.get(member, 0) + 1
        if member in self._alone or (self._taking_part and self._taking_part <= self._seen.keys()):
            self._seen.clear()
            return True
        if times < MOST_STEPS_OF_ONE:
            return False
        self._taking_part = set(self._seen)
        self._seen.clear()
        return True

    def join(self, member: int) -> None:
        """An optimizer made later, of parameters that are moved already."""
        self._alone.add(member)

    def leave(self, member: int) -> None:
        """An optimizer that is gone."""
        self._taking_part.discard(member)
        self._alone.discard(member)
        self._seen.pop(member, None)
