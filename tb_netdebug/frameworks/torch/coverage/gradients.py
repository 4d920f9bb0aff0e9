"""Finds parameters that never get a gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tb_netdebug.core.records.facts import GradientsFact, Names
from tb_netdebug.frameworks.torch.coverage.calls import WatchedCalls
from tb_netdebug.frameworks.torch.coverage.members import Member

MOST_NAMES = 256
# One look may be too early: some programs step an optimizer before the first backward pass.
FEWEST_LOOKS = 2


class GradientsSeen:
    """Counts which parameters had no gradient when an optimizer was about to step.

    A parameter that has had a gradient once is never checked again: experts and randomly skipped layers get
    theirs only now and then.
    """

    def __init__(self) -> None:
        self._looks = 0
        self._had: set[int] = set()
        self._without: dict[int, int] = {}  # by id: the number of looks without a gradient
        self._told: tuple[Names, Names, bool, WatchedCalls] | None = None
        self._told_steps = 0

    def look(self, ids: Sequence[int], members: Mapping[int, Member]) -> None:
        """Check the parameters with these ids."""
        self._looks += 1
        for key in ids:
            if key in self._had:
                continue
            member = members.get(key)
            if member is None:
                continue
            if member.tensor.grad is not None:
                self._had.add(key)
                self._without.pop(key, None)
            # A frozen parameter has no gradient for a reason, so its count starts over.
            elif member.tensor.requires_grad:
                self._without[key] = self._without.get(key, 0) + 1
            else:
                self._without.pop(key, None)

    @property
    def had_any(self) -> bool:
        return bool(self._had)

    def without(self, members: Mapping[int, Member], *, looks: int = FEWEST_LOOKS) -> list[Member]:
        """Return the parameters without a gradient in at least so many looks."""
        return [
            members[key]
            for key, missed in self._without.items()
            if missed >= looks and key in members and members[key].is_wanted
        ]

    def news(self, members: Mapping[int, Member], calls: WatchedCalls) -> GradientsFact | None:
        """Return the fact if it is due, else None.

        It is due when it has changed, or has held for twice as many steps as when it was last recorded.
        """
        none = self.without(members)
        if not none and not self._had:
            return None
        frozen = tuple(
            each.name
            for each in members.values()
            if each.is_wanted and not each.is_hidden and not each.tensor.requires_grad
        )
        steps = min((self._without[id(each.tensor)] for each in none), default=self._looks)
        told = tuple(each.name for each in none), frozen, not self._had, calls
        if told == self._told and (not none or steps < 2 * self._told_steps):
            return None
        self._told, self._told_steps = told, steps
        return GradientsFact(
            none=told[0][:MOST_NAMES],
            none_total=len(none),
            steps=steps,
            frozen=frozen[:MOST_NAMES],
            frozen_total=len(frozen),
            detached=not self._had,
            called=calls.called,
            called_without_grad=calls.called_without_grad,
            uncalled=calls.uncalled,
        )
