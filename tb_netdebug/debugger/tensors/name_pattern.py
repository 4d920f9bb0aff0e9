"""Names chosen by a regular expression that came over the wire: it must not keep the training waiting."""

from __future__ import annotations

from tb_netdebug.core.records.linear_regex import LinearPattern, PatternError
from tb_netdebug.debugger.workbench import WorkbenchError

MOST_NAME_LETTERS = 300
MOST_REMEMBERED = 100_000


class NamePattern:
    """Raises WorkbenchError for what is no regular expression, or none that is searched in linear time."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._pattern = LinearPattern(text)
        except PatternError as error:
            raise WorkbenchError(str(error)) from None
        self._known: dict[str, bool] = {}

    @property
    def steps(self) -> int:
        """Those taken for all names so far."""
        return self._pattern.steps

    @property
    def states(self) -> int:
        """How many steps a letter of a name costs at most."""
        return self._pattern.states

    def finds(self, name: str) -> bool:
        """Whether it is found anywhere in the name; the answer is remembered."""
        known = self._known.get(name)
        if known is None:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            known = self._known[name] = self._pattern.search(name[:MOST_NAME_LETTERS])
        return known
