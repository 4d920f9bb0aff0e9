"""The program's stack: its frames, their variables, and the lines of its files."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import Any

from tb_netdebug.core.user_code import foreign_folders, is_foreign, is_ours
from tb_netdebug.debugger.trainer.variables import Variables
from tb_netdebug.debugger.workbench import WorkbenchError

MOST_FRAMES = 64
MOST_DEPTH = 1000
# An answer must fit into the header of a frame on the wire.
MOST_LINES = 5000
MOST_LINE = 400
MOST_SOURCE_LETTERS = 500_000
MOST_FILES = 2000


def line_of(frame: FrameType) -> tuple[str | None, int, str]:
    """Return file, line and function of the nearest user code, or of a library's if there is none."""
    frames = [each for each in outwards(frame) if not is_ours(each.f_code)]
    users = (each for each in frames if is_users(each))
    found = next(users, frames[0] if frames else None)
    return (found.f_code.co_filename, found.f_lineno, found.f_code.co_name) if found else (None, 0, "")


def outwards(frame: FrameType) -> Iterator[FrameType]:
    each: FrameType | None = frame
    for _ in range(MOST_DEPTH):
        if each is None:
            return
        yield each
        each = each.f_back


def is_users(frame: FrameType) -> bool:
    return not is_foreign(frame.f_code, foreign_folders())


def stack_of(frame: FrameType) -> list[dict[str, Any]]:
    """Return the answer of the verb `stack`: innermost first, without NetDebug's frames.

    Variables are listed for the user's frames only.
    """
    variables = Variables()
    frames = [each for each in outwards(frame) if not is_ours(each.f_code)]
    return [
        {
            "file": each.f_code.co_filename,
            "line": each.f_lineno,
            "function": each.f_code.co_name,
            "is_user": is_users(each),
            "locals": list(variables.of(_locals(each))) if is_users(each) else [],
        }
        for each in frames[:MOST_FRAMES]
    ]


def _locals(frame: FrameType) -> Mapping[str, Any]:
    """Return the frame's variables; a class body may have a mapping of the user's own, which is not asked."""
    found = frame.f_locals
    return found if type(found) is dict or type(found).__name__ == "FrameLocalsProxy" else {}


class Sources:
    """Lines of files, but only of those that a stack or a list of modules has named."""

    def __init__(self) -> None:
        self._named: dict[str, None] = {}

    def name(self, files: Iterable[str | None]) -> None:
        """Allow these files to be read; if there are very many, the oldest are dropped."""
        for file in files:
            if file:
                self._named.pop(file, None)
                self._named[file] = None
        for file in list(self._named)[:-MOST_FILES]:
            del self._named[file]

    def read(self, file: str) -> dict[str, Any]:
        """Return the answer of the verb `source`; raise WorkbenchError."""
        # Clients must not be able to read every file of the machine.
        if file not in self._named:
            raise WorkbenchError("This file belongs to no frame or module that was requested.")
        lines = [line.rstrip("\n")[:MOST_LINE] for line in linecache.getlines(file)[:MOST_LINES]]
        if not lines:
            raise WorkbenchError("The lines of this file cannot be read here.")
        letters, kept = 0, 0
        while kept < len(lines) and letters <= MOST_SOURCE_LETTERS:
            letters += len(lines[kept])
            kept += 1
        return {"file": file, "first_line": 1, "lines": lines[:kept]}
