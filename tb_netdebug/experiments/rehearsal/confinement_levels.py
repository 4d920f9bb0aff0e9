"""The levels of holding a process, the safest first.

Each hold is created in the keeper and begun in the held process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Protocol

from tb_netdebug.experiments.rehearsal.changes import FileChange

# The key under which a keeper reports why it could not begin.
UNAVAILABLE = "unavailable"
# The class of each level. The constructor raises ConfinementUnavailableError if this machine lacks the level.
PLACES = {
    "overlay": "tb_netdebug.experiments.rehearsal.overlay:Overlay",
    "landlock": "tb_netdebug.experiments.rehearsal.landlock:Landlock",
    "python": "tb_netdebug.experiments.rehearsal.refusal:Refusal",
}


class ConfinementUnavailableError(Exception):
    """This machine cannot hold a process at this level; the message says why."""


class Confinement(Protocol):
    """A way to hold a process, created with an empty folder that is removed afterwards.

    The constructor raises ConfinementUnavailableError.
    """

    read_only: list[str]

    def begin(self) -> None:
        """Begin to hold; called in the held process before it does anything else."""

    def changes(self) -> Iterator[FileChange]:
        """Yield what was written; called when the process and all its children have ended."""

    def notes(self) -> Sequence[str]:
        """Return sentences on what could not be held."""


def levels() -> list[str]:
    """Return the levels to try on this system, in order."""
    return list(PLACES) if sys.platform == "linux" else ["python"]


def hold_of(level: str) -> Callable[[str], Confinement]:
    """Return the class of a level, without importing the other levels."""
    module, _, name = PLACES[level].partition(":")
    made: Callable[[str], Confinement] = getattr(import_module(module), name)
    return made
