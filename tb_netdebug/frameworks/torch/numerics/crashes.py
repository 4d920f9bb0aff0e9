"""Catches exceptions that end a run: on their way to `sys.excepthook`, or when the monitor is closed."""

from __future__ import annotations

import sys
import threading
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tb_netdebug.checks.finding_error import FindingError
from tb_netdebug.core.records.visible import visible
from tb_netdebug.core.start_folder import as_typed
from tb_netdebug.recording.guard import MonitorError

MOST_CHARACTERS = 1 << 14
# NetDebug itself raises these to stop the program: they are not crashes.
ASKED_FOR = (FindingError, MonitorError)


class CrashWatch:
    """Calls the method `on_crash(error, traceback)` once, holding its object by a weak reference only.

    The method returns the capsule, or half a sentence on why there is none, which is printed. None prints
    nothing. Hooks that were installed before are called first.
    """

    def __init__(self, on_crash: Callable[[Exception, str], Path | str | None]) -> None:
        self._on_crash = weakref.WeakMethod(on_crash)
        self._is_done = False
        self._before = sys.excepthook
        self._before_in_thread = threading.excepthook
        self._own, self._own_in_thread = self._hook, self._hook_in_thread  # each access makes a new object
        sys.excepthook = self._own
        threading.excepthook = self._own_in_thread

    def close(self) -> None:
        """Report the exception in flight, if one is the reason for closing, and remove the hooks."""
        self._tell(sys.exc_info()[1])
        self._is_done = True
        # Somebody may have installed a hook over ours since. Leave theirs in place.
        if sys.excepthook is self._own:
            sys.excepthook = self._before
        if threading.excepthook is self._own_in_thread:
            threading.excepthook = self._before_in_thread

    def _hook(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._before(kind, error, trace)
        self._tell(error)

    def _hook_in_thread(self, told: Any) -> None:
        self._before_in_thread(told)
        self._tell(told.exc_value)

    def _tell(self, error: BaseException | None) -> None:
        ask = self._on_crash()
        # KeyboardInterrupt and SystemExit are no crashes.
        if self._is_done or ask is None or not isinstance(error, Exception) or isinstance(error, ASKED_FOR):
            return
        self._is_done = True
        # The end of a traceback names the error and its innermost calls.
        found = ask(error, "".join(traceback.format_exception(error))[-MOST_CHARACTERS:])
        if found is None or sys.stderr is None:
            return
        if isinstance(found, Path):
            told = f"the batch and the weights of this step: {visible(as_typed(found))}"
        else:
            told = f"no capsule of this {visible(type(error).__name__)} was written: {found}."
        sys.stderr.write(f"NetDebug: {told}\n")
