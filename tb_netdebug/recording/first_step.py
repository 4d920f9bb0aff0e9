"""Before the first `monitor.step`, count optimizer steps and warn that nothing is recorded without it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tb_netdebug.checks.wording.words import printable
from tb_netdebug.core.eventlog.writer.located_warnings import UserLine
from tb_netdebug.core.records.verdict import why_no_step

# An optimizer that stepped this often without a `monitor.step` belongs to a loop that forgot it.
STEPS_OF_PATIENCE = 20
# A program may create an optimizer for every step.
MOST_OPTIMIZERS = 1000

LOOP = """\
NetDebug: nothing is recorded yet: the optimizer stepped {count} times and monitor.step was not called.
  Keep what nd.watch returns ({where}), and end each batch with one more line:
    monitor = nd.watch(model, optimizer)
    ...                      # a batch: forward, backward, update
    monitor.step(loss=loss)  # the line that is missing"""
FIT = """\
NetDebug: nothing is recorded yet: Keras trained {count} batches and monitor.step was not called.
  With fit, use a callback in place of nd.watch ({where}):
    model.fit(..., callbacks=[nd.KerasCallback()])
  With train_on_batch, call monitor.step() after each batch."""


class FirstStep:
    """Owned by the collector until the first step; the hooks on optimizers report their steps to it.

    `is_users`: the user calls `monitor.step`, not a callback of ours. `speaks`: False in ranks other than the
    first. `describe` writes the run's description, which contains `facts`.
    """

    __slots__ = ("_counts", "_describe", "_has_said", "_is_fit", "_is_users", "_line", "_pid", "_speaks")

    def __init__(self, *, is_users: bool, speaks: bool, describe: Callable[[], None]) -> None:
        self._is_users = is_users
        self._speaks = speaks
        self._describe = describe
        self._line = UserLine.current()
        self._pid = os.getpid()
        self._counts: dict[int, int] = {}
        self._has_said = self._is_fit = False

    def updated(self, optimizer: int, *, is_fit: bool = False) -> None:
        """Count a step of the optimizer with this id.

        Each optimizer has a count of its own: a model may have one for every parameter.
        """
        count = self._counts.get(optimizer, 0) + 1
        if count == 1 and len(self._counts) >= MOST_OPTIMIZERS:
            self._counts.clear()
        self._counts[optimizer] = count
        self._is_fit = self._is_fit or is_fit
        if count >= STEPS_OF_PATIENCE and self._is_users and not self._has_said:
            self._has_said = True
            self._describe()
            where = printable(f"{Path(self._line.filename).name}:{self._line.lineno}")
            self._say((FIT if self._is_fit else LOOP).format(count=count, where=where))

    def facts(self, *, is_closed: bool, error: str = "") -> dict[str, Any]:
        """Return what the description contains of a run without a step: see `core.records.verdict`."""
        return {
            "is_users": self._is_users,
            "optimizer_steps": max(self._counts.values(), default=0),
            "is_fit": self._is_fit,
            "is_closed": is_closed,
            "has_failed": bool(error),
        }

    def close(self, *, error: str) -> None:
        """Print that nothing was recorded, unless a callback or `netdebug run` watches and prints it."""
        if self._is_users:
            reason = why_no_step(self.facts(is_closed=True, error=error))
            self._say(f"NetDebug: {reason[0].lower()}{reason[1:]}")

    def _say(self, text: str) -> None:
        # A forked child must not speak for its parent.
        if not self._speaks or self._pid != os.getpid():
            return
        with suppress(OSError, ValueError, AttributeError):  # there may be no terminal any more
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()
