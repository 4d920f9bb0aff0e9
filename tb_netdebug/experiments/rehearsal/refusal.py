"""The level `python`, for systems where the kernel cannot hold a process.

Python's writes go to copies, and everything else is refused. This is weaker: native libraries open files
without asking Python.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from tb_netdebug.experiments.rehearsal.changes import FileChange
from tb_netdebug.experiments.rehearsal.copies import Copies
from tb_netdebug.experiments.rehearsal.redirection import WRITING, redirect

# Audit events of operations on paths, with the positions of the paths among their arguments.
ON_PATHS = {
    "os.chmod": (0,), "os.chown": (0,), "os.link": (0, 1), "os.mkdir": (0,), "os.remove": (0,),
    "os.removexattr": (0,), "os.rename": (0, 1), "os.rmdir": (0,), "os.setxattr": (0,), "os.symlink": (1,),
    "os.truncate": (0,), "os.utime": (0,), "sqlite3.connect": (0,),
}  # fmt: skip
STARTING = ("os.posix_spawn", "os.spawn", "os.system", "os.startfile", "pty.spawn", "subprocess.Popen")
MODES_OF_WRITING = frozenset("wax+")


class Refusal:
    """A hold that works on every system that Python runs on."""

    def __init__(self, scratch: str) -> None:
        self._copies = Copies(scratch)
        self.read_only: list[str] = []

    def begin(self) -> None:
        redirect(self._copies)
        # multiprocessing calls it directly, without an audit event.
        vars(import_module("_posixsubprocess"))["fork_exec"] = refuse_to_start
        sys.addaudithook(self._look)

    def changes(self) -> Iterator[FileChange]:
        return self._copies.changes()

    def notes(self) -> list[str]:
        return [
            "The script could not start other programs. Libraries that are not written in Python may have "
            "written outside the temporary copy."
        ]

    def _look(self, event: str, arguments: tuple[Any, ...]) -> None:
        look = EVENTS.get(event)
        if look is not None:
            look(self._copies, arguments)
        elif event in STARTING:
            refuse_to_start(arguments)
        elif event in ON_PATHS:
            for place in ON_PATHS[event]:
                check(self._copies, arguments[place])


def look_at_open(copies: Copies, arguments: tuple[Any, ...]) -> None:
    path, mode, flags = arguments[:3]
    writes = bool(MODES_OF_WRITING & set(mode)) if isinstance(mode, str) else bool(flags & WRITING)
    if writes:
        check(copies, path)


EVENTS: dict[str, Callable[[Copies, tuple[Any, ...]], None]] = {"open": look_at_open}


def check(copies: Copies, path: Any) -> None:
    """Raise PermissionError for a path outside of the copies.

    Descriptors pass: they were opened here, so they are of copies.
    """
    if isinstance(path, int) or path is None or path in ("", ":memory:", b""):
        return
    text = os.fsdecode(path)
    if not copies.is_ours(os.path.normpath(os.path.join(copies.folder(), text))):
        raise PermissionError(
            errno.EPERM, "NetDebug does not let the script write outside its temporary copy", text
        )


def refuse_to_start(*arguments: Any) -> Any:
    raise PermissionError(
        errno.EPERM, "NetDebug does not let the script start other programs on this machine"
    )
