"""Watches a program that knows nothing of it: waits for a framework, opens a run for each training.

What belongs to a framework is in its discovery, which is imported when the program has imported that.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, Protocol

from tb_netdebug.capture.clock import now
from tb_netdebug.capture.settings import Settings
from tb_netdebug.capture.zero_code.first_import import FirstImport, when_imported
from tb_netdebug.capture.zero_code.training import Training

# By the module whose import is waited for.
DISCOVERIES = {
    "torch": "tb_netdebug.capture.pytorch.discovery.trainings",
    "keras": "tb_netdebug.integrations.keras_trainings",
}
# Opening a run takes some 50 ms. A program with thousands of little trainings (one for each task of a
# meta-learner) may lose its share of time to that, and this much at once.
GRACE_SECS = 3.0
MOST_OPEN = 8
# After so many that were over within a few steps, no more are recorded: they are parts of something bigger.
SHORT_STEPS = 10
MOST_SHORT = 8
MOST_RUNS = 1000
MOST_FAULTS = 20
FLUSH_SECS = 2.0


class Discovery(Protocol):
    """Finds the trainings of one framework; made by `discover(zero_code)` of its module."""

    def interrupted(self) -> None:
        """The program ends in the middle of a step: what is known of it is put into the run."""

    def close(self) -> None:
        """Takes everything away that was put on."""


class ZeroCode:
    """From `install` to `close`; in a forked child it does nothing. What goes wrong in it is said once."""

    def __init__(self, settings: Settings, *, rank: int = 0) -> None:
        folder = Path(settings.folder if settings.folder is not None else "runs").expanduser()
        self.logdir = Path.cwd() / folder  # whatever folder the program changes to
        self.rank = rank
        self.trainings: list[Training] = []
        self.found: list[str] = []
        self.optimizers = 0
        self.passed_over = 0
        self.is_off = False
        self.stands_aside = False
        self.is_finished = False
        self.remote = settings.remote
        self.is_spooled = settings.is_spooled
        self._settings = settings if settings.is_spooled else replace(settings, logdir=self.logdir)
        self.discoveries: list[Discovery] = []
        self._waiting: list[FirstImport] = []
        self.faults = 0
        self._began = now()
        self._opening_secs = 0.0
        self._opening = threading.Lock()
        self._pid = os.getpid()
        self._leave = os._exit

    # ---- from the first line of the program to the last --------------------------------------------------

    def install(self) -> None:
        _installed.add(self)
        os.register_at_fork(after_in_child=self.forget)
        self._leave = os._exit
        os._exit = self._before_leaving
        for framework, module in DISCOVERIES.items():
            waiting = when_imported(framework, partial(self._discover, framework, module))
            if waiting is not None:
                self._waiting.append(waiting)

    def is_ours(self) -> bool:
        """Not in a forked child."""
        return self._pid == os.getpid()

    def interrupted(self) -> None:
        """The program has failed, perhaps in the middle of a step."""
        for discovery in self.discoveries:
            if not self.is_off:
                self.attempt("ending the last step", discovery.interrupted)

    def close(self) -> None:
        """Ends all runs. Harmless when called again."""
        if not self.is_ours():
            return
        for discovery in self.discoveries:
            self.attempt("taking its hooks away", discovery.close)
        for training in self.trainings:
            self.attempt("closing a run", training.close)
        for waiting in self._waiting:
            waiting.close()
        if os._exit == self._before_leaving:
            os._exit = self._leave
        self.discoveries.clear()
        self.is_off = True

    def stand_aside(self) -> None:
        """The program watches itself."""
        self.stands_aside = True
        self.close()

    # ---- what a discovery calls ----------------------------------------------------------------------------

    def open(self, make_adapter: Any) -> Training | None:
        """A run for a training that begins; None when there have been too many."""
        with self._opening:
            return self._open(make_adapter)

    def _open(self, make_adapter: Any) -> Training | None:
        if self.is_off or not self._may_open():
            self.passed_over += 1
            return None
        began = now()
        training = Training(make_adapter, self._settings, self._run_dir(), self.rank)
        if self.trainings:
            self._opening_secs += now() - began
        self._close_the_idlest()
        self.trainings.append(training)
        return training

    def attempt(self, doing: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            self.fault(doing, error)

    def fault(self, doing: str, error: Exception) -> None:
        self.faults += 1
        self.is_off = self.faults >= MOST_FAULTS
        if self.faults == 1:
            say(
                f"NetDebug failed while {doing}: {type(error).__name__}: {error}. The script goes on; this "
                "part of it is not recorded."
            )

    # ---- parts ---------------------------------------------------------------------------------------------

    def _discover(self, framework: str, module: str) -> None:
        if self.is_off:
            return
        self.found.append(framework)
        try:
            self.discoveries.append(importlib.import_module(module).discover(self))
        except Exception as error:
            self.fault(f"setting itself up for {framework}", error)

    def _may_open(self) -> bool:
        allowed = GRACE_SECS + self._settings.overhead * (now() - self._began)
        short = sum(not training.is_open and training.steps < SHORT_STEPS for training in self.trainings)
        return self._opening_secs <= allowed and len(self.trainings) < MOST_RUNS and short < MOST_SHORT

    def _close_the_idlest(self) -> None:
        running = [training for training in self.trainings if training.is_open]
        if len(running) >= MOST_OPEN:
            min(running, key=lambda training: training.last_step_secs).close()

    def _run_dir(self) -> Path:
        """As for `watch`; a second training of the same program has the same name and a number."""
        from tb_netdebug.capture.run_folder import run_folder, unused

        if not self.trainings:
            return run_folder(self.logdir, self._settings.run, os.environ)
        first, number = self.trainings[0].run_dir, len(self.trainings) + 1
        name = f"{first.name}-{number}"
        is_shared = self._settings.run is not None or self.rank or int(os.environ.get("WORLD_SIZE", "1")) > 1
        return first.parent / name if is_shared else unused(first.parent, name)

    def _before_leaving(self, status: int) -> NoReturn:
        """os._exit ends a program without any further word: what was recorded is brought to the disk."""
        if self._pid == os.getpid():
            for training in self.trainings:
                with suppress(Exception):  # the program is leaving, and nobody is there to be told
                    training.flush(FLUSH_SECS)
        self._leave(status)

    def forget(self) -> None:
        """There is nothing to watch, or this is a forked child."""
        self.is_off = self.stands_aside = True


_installed: weakref.WeakSet[ZeroCode] = weakref.WeakSet()


def all_stand_aside() -> None:
    """A callback of ours will watch what the program is about to train."""
    for each in list(_installed):
        each.stand_aside()


def say(text: str) -> None:
    """To the terminal, if there still is one."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
