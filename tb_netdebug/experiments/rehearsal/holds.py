"""The ways to hold a process, the safest first. Each is made in the keeper and begun in the held process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Protocol

from tb_netdebug.experiments.rehearsal.changes import FileChange

# The key under which a keeper says why it could not begin.
UNAVAILABLE = "unavailable"
# Where each is; a level that this machine does not have says so when it is made.
PLACES = {
    "overlay": "tb_netdebug.experiments.rehearsal.overlay:Overlay",
    "landlock": "tb_netdebug.experiments.rehearsal.landlock:Landlock",
    "python": "tb_netdebug.experiments.rehearsal.refusal:Refusal",
}


class HoldUnavailableError(Exception):
    """This machine does not hold a process so; says why."""


class Hold(Protocol):
    """Made with an empty folder that is removed afterwards; raises UnavailableError."""

    read_only: list[str]

    def begin(self) -> None:
        """In the held process, before it does anything."""

    def changes(self) -> Iterator[FileChange]:
        """What it has written, when it and all its children have ended."""

    def notes(self) -> Sequence[str]:
        """Sentences about what could not be held."""


def levels() -> list[str]:
    """Those to be tried here, in order."""
    return list(PLACES) if sys.platform == "linux" else ["python"]


def hold_of(level: str) -> Callable[[str], Hold]:
    module, _, name = PLACES[level].partition(":")
    made: Callable[[str], Hold] = getattr(import_module(module), name)
    return made
