"""Selects names by a regular expression from the wire, which must not keep the run waiting."""

from __future__ import annotations

from tb_netdebug.core.records.linear_regex import LinearPattern, PatternError
from tb_netdebug.debugger.workbench import WorkbenchError

MOST_NAME_LETTERS = 300
MOST_REMEMBERED = 100_000


class NamePattern:
    """A pattern over names.

    Raises WorkbenchError for an invalid one, or one that takes more than linear time.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._pattern = LinearPattern(text)
        except PatternError as error:
            raise WorkbenchError(str(error)) from None
        self._known: dict[str, bool] = {}

    @property
    def steps(self) -> int:
        """The steps taken for all names so far."""
        return self._pattern.steps

    @property
    def states(self) -> int:
        """The most steps that one letter of a name can cost."""
        return self._pattern.states

    def finds(self, name: str) -> bool:
        """Return whether the pattern occurs anywhere in the name; the answer is cached."""
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            known = self._known[name] = self._pattern.search(name[:MOST_NAME_LETTERS])
        return known
