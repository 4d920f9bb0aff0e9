"""Records the source line of each operation between a model's output and the backward pass.

torch's anomaly mode stores a stack trace on each operation, without a second run and without a dispatch mode
of ours around user code. A trace takes 0.1 ms. Traces are therefore on with check_numerics="ops", and for
some steps after a loss has become NaN at an unknown line.

Meanwhile user code sees the mode as off. `detect_anomaly` restores the state that it found, and would
otherwise leave the mode on for good.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from tb_netdebug.core.user_code import is_foreign_file
from tb_netdebug.frameworks.torch.frames import FOREIGN

# torch's own functions, whatever the names in `torch` are bound to at the moment.
is_enabled = torch._C.is_anomaly_enabled
is_checking_nan = torch._C.is_anomaly_check_nan_enabled
set_enabled = torch._C.set_anomaly_enabled
STEPS_ARMED = 64
TRACE = "traceback_"  # torch's key for it in an operation's metadata
ENTRY = re.compile(r'\s*File "(?P<path>[^"]+)", line (?P<line>\d+), in ')


class LossLines:
    """Switches the traces on at a model's output and off before the backward pass."""

    def __init__(self, *, always: bool) -> None:
        self._always = always
        self._steps_left = 0
        self.is_armed = always  # while it is not, nothing has to be called
        self._checked_nan: bool | None = None  # torch's setting from before; None while the traces are off
        self._covers: dict[str, tuple[Callable[..., Any], Any]] = {}  # by name: (ours, torch's)

    def arm(self) -> None:
        """Have traces for the next `STEPS_ARMED` steps."""
        self._steps_left = STEPS_ARMED
        self.is_armed = True

    def begin(self) -> None:
        """Switch the traces on. Called with each output of a model.

        A user who has anomaly mode on has the traces already.
        """
        if self.is_armed and not is_enabled():
            self._checked_nan = is_checking_nan()
            # Without torch's own check for NaN, which would raise in the user's backward pass.
            set_enabled(True, False)
            self._cover(self._checked_nan)

    def end(self) -> None:
        """Restore torch's settings, unless the user has changed them since."""
        checked_nan, self._checked_nan = self._checked_nan, None
        if checked_nan is None:
            return
        self._uncover()
        if is_enabled() and not is_checking_nan():
            set_enabled(False, checked_nan)

    def _cover(self, checked_nan: bool) -> None:
        # The user takes over: drop our setting first, so that `end` does not undo theirs later.
        def set_by_user(mode: bool, check_nan: bool = True) -> None:
            self.end()
            set_enabled(mode, check_nan)

        ours: dict[str, Callable[..., Any]] = {
            "is_anomaly_enabled": lambda: False,
            "is_anomaly_check_nan_enabled": lambda: checked_nan,
            "set_anomaly_enabled": set_by_user,
        }
        self._covers = {name: (each, getattr(torch, name)) for name, each in ours.items()}
        for name, each in ours.items():
            setattr(torch, name, each)

    def _uncover(self) -> None:
        for name, (ours, own) in self._covers.items():
            # Somebody else may have patched the name since. Leave that alone.
            if getattr(torch, name) is ours:
                setattr(torch, name, own)
        self._covers = {}

    def end_step(self) -> None:
        self.end()
        self._steps_left = max(self._steps_left - 1, 0)
        self.is_armed = self._always or self._steps_left > 0


def line_of(node: Any) -> str:
    """Return the user's line that called this operation, such as "train.py:41"; empty without a trace."""
    trace = node.metadata.get(TRACE)
    return user_line(trace) if isinstance(trace, list) else ""


def user_line(trace: Iterable[str]) -> str:
    """Return the innermost user line of a stack trace, such as "train.py:41"; empty if there is none."""
    for entry in reversed([*trace]):
        found = ENTRY.match(entry)
        if found and not is_foreign_file(found["path"], FOREIGN):
            return f"{Path(found['path']).name}:{found['line']}"
    return ""
