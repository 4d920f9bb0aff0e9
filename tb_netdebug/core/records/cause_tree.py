"""The tree of causes: which finding explains which others.

The engine names one cause per finding, by rule. Everything else follows from these names and is computed here
only: what each cause leads to, how bad that is, and in which order findings are listed. Names may also come
from a damaged or hostile file: a cause that was not found counts as none, and so do the members of a circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CauseTree:
    """The causes and the consequences of the rules that found something.

    `causes` maps each rule to the rule that explains it, or to None. `downwards` has all rules, each cause
    before its consequences.
    """

    causes: Mapping[str, str | None]
    downwards: tuple[str, ...]

    @classmethod
    def of(cls, named: Mapping[str, str | None]) -> CauseTree:
        """Return the tree for the cause that each rule names."""
        causes = dict(named)
        for rule in _without_sound_cause(named):
            causes[rule] = None
        below = _consequences(causes)
        order = [rule for rule, cause in causes.items() if cause is None]
        for rule in order:  # grows while it is read
            order += below[rule]
        return cls(causes, tuple(order))

    def consequences(self) -> dict[str, list[str]]:
        """Return what each rule explains, its own consequences only, in the order of the rules."""
        return _consequences(self.causes)

    def worst(self, severities: Mapping[str, int]) -> dict[str, int]:
        """Return for each rule the highest severity among itself and all that it leads to."""
        worst = dict(severities)
        for rule in reversed(self.downwards):
            cause = self.causes[rule]
            if cause is not None:
                worst[cause] = max(worst[cause], worst[rule])
        return worst


def _consequences(causes: Mapping[str, str | None]) -> dict[str, list[str]]:
    below: dict[str, list[str]] = {rule: [] for rule in causes}
    for rule, cause in causes.items():
        if cause is not None:
            below[cause].append(rule)
    return below


def _without_sound_cause(named: Mapping[str, str | None]) -> set[str]:
    """Return the rules whose named cause was not found, and those that are, in the end, their own cause."""
    unsound: set[str] = set()
    seen: set[str] = set()
    for start in named:
        path: dict[str, None] = {}  # a set that keeps its order
        rule: str | None = start
        while rule is not None and rule not in seen:
            seen.add(rule)
            path[rule] = None
            cause = named[rule]
            if cause is not None and cause not in named:
                unsound.add(rule)
                break
            rule = cause
        if rule in path and rule not in unsound:
            way = list(path)
            unsound.update(way[way.index(rule) :])
    return unsound
