"""Ends a process with exit status 1 if a finding was raised after the script was over.

For `on_finding="raise"`: Python prints what a function of `atexit` raises, and still ends with status 0.
"""

from __future__ import annotations

import os
import posix
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

from tb_netdebug.recording.remote import error_that_ends

FAILED = 1
NAME = "_netdebug_exit_status"  # in the module `sys`, which Python tears down last of all

_given: list[object] = []


class _End:
    """Ends the process when Python deletes it.

    By then all functions of `atexit` were called, and everything written is flushed.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        # Bound now: modules are empty by the time these are needed, and `netdebug run` may have replaced
        # `os._exit`.
        self._pid_now, self._leave, self._status = os.getpid, posix._exit, FAILED

    def __del__(self) -> None:
        if self._pid_now() == self._pid:  # not in a process that was forked since
            self._leave(self._status)


def fail() -> None:
    """Have the process end with status 1, unless an error or `sys.exit` has given it another one."""
    if not error_that_ends() and not any(_given):
        setattr(sys, NAME, _End())


def listen_to_exit() -> None:
    """Note what the program passes to `sys.exit`, which cannot be asked afterwards. May be repeated."""
    if not hasattr(sys.exit, NAME):
        sys.exit = _noting(sys.exit)


def _noting(leave: Callable[..., Any]) -> Any:
    @wraps(leave)
    def exit(status: object = None, /) -> None:
        _given[:] = [status]
        leave(status)

    setattr(exit, NAME, True)
    return exit
