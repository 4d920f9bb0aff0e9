"""Watches a program without its help: waits for a framework, and opens a run for each training it finds.

Everything specific to a framework is in its discovery, which is imported after the program imports that
framework.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from tb_netdebug.core.records.visible import visible_lines
from tb_netdebug.recording.clock import now
from tb_netdebug.recording.settings import Settings
from tb_netdebug.recording.signal_handlers import is_from_a_handler
from tb_netdebug.training.zero_code import descendants
from tb_netdebug.training.zero_code.descendants import Carrier, Descent
from tb_netdebug.training.zero_code.first_import import FirstImport, when_imported
from tb_netdebug.training.zero_code.results import Notes, Result, result_of
from tb_netdebug.training.zero_code.training import Training

if TYPE_CHECKING:
    from tb_netdebug.recording.run_sessions import RunPlace

# By the module whose import is waited for.
DISCOVERIES = {
    "torch": "tb_netdebug.integrations.torch_scripts.trainings",
    "keras": "tb_netdebug.integrations.keras_trainings",
}
# Opening a run takes some 50 ms. A program with thousands of small trainings (one for each task of a
# meta-learner) may lose its share of time to that, and this much at once.
GRACE_SECS = 3.0
MOST_OPEN = 8
# After this many that were over within a few steps, no more are recorded: they are parts of something bigger.
SHORT_STEPS = 10
MOST_SHORT = 8
MOST_RUNS = 1000
MOST_FAULTS = 20
FLUSH_SECS = 2.0


class Discovery(Protocol):
    """Finds the trainings of one framework; made by `discover(zero_code)` of its module."""

    def interrupted(self) -> None:
        """Record what is known of the present step: the program ends in the middle of it."""

    def close(self) -> None:
        """Remove everything that was patched or hooked."""


class ZeroCode:
    """The watch over one program, from `install` to `close`. Its first fault is reported, and only that.

    A forked child is watched as a run of its own, unless something was being recorded when it was forked.
    """

    def __init__(self, settings: Settings, *, rank: int = 0, descent: Descent | None = None) -> None:
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
        self.failed_with: type[BaseException] | None = None
        self.exit_status = 0  # of a program that has ended itself
        self._settings = settings if settings.is_spooled else replace(settings, logdir=self.logdir)
        self.asked = settings
        self._descent = descent
        self._began_at = time.time()
        self._root = descendants.root_named(os.getpid(), self._began_at)
        self._unrecorded: list[str] = []
        self._told: dict[Path, Result] = {}
        self.forks = 0
        self.is_unrecorded_child = False
        self._carrier: Carrier | None = None
        self.discoveries: list[Discovery] = []
        self._waiting: list[FirstImport] = []
        self.faults = 0
        self._began = now()
        self._opening_secs = 0.0
        self._opening = threading.Lock()
        self._pid = os.getpid()
        self._leave = os._exit

    # ---- the life of the watch ---------------------------------------------------------------------------

    def install(self) -> None:
        _installed.add(self)
        os.register_at_fork(after_in_parent=self._has_forked, after_in_child=self._was_forked)
        self._leave = os._exit
        os._exit = self._before_leaving  # skips atexit, so it has to be noticed here
        for framework, module in DISCOVERIES.items():
            waiting = when_imported(framework, partial(self._discover, framework, module))
            if waiting is not None:
                self._waiting.append(waiting)
        waiting = when_imported(descendants.SPAWN, self._carry_on)
        if waiting is not None:
            self._waiting.append(waiting)

    def is_ours(self) -> bool:
        """Return whether this process is watched: not so in a forked child that is left alone."""
        return self._pid == os.getpid()

    def interrupted(self, kind: type[BaseException]) -> None:
        """Note that the program has failed with such an error, perhaps in the middle of a step."""
        self.failed_with = kind
        for discovery in self.discoveries:
            if not self.is_off:
                self.attempt("ending the last step", discovery.interrupted)

    def close(self) -> None:
        """End all runs. May be repeated."""
        if not self.is_ours():
            return
        self._unrecorded = self.unrecorded()
        for discovery in self.discoveries:
            self.attempt("taking its hooks away", discovery.close)
        for training in self.trainings:
            self.attempt("closing a run", training.close)
        for waiting in self._waiting:
            waiting.close()
        if self._carrier is not None:
            self._carrier.close()
        if os._exit == self._before_leaving:
            os._exit = self._leave
        self.discoveries.clear()
        self.is_off = True

    def finish(self) -> None:
        """End all runs at the very end, and print what was found. May be repeated."""
        if not self.is_ours() or self.is_finished:
            return
        kind = sys.exc_info()[0]
        if self._descent is not None and kind is not None and kind is not SystemExit:
            self.interrupted(kind)
        self.close()
        self.is_finished = True
        # Without remote= and debugger= it is not imported, and there is nothing to wait for.
        link = sys.modules.get("tb_netdebug.transport.link")
        if link is not None:
            link.wait_for_deliveries()
        if self.rank or self.stands_aside or self._leaves_it_to_the_first():
            return
        from tb_netdebug.training.zero_code.run_summary import closing_words

        self.attempt("reporting the findings", lambda: say(closing_words(self)))

    def _leaves_it_to_the_first(self) -> bool:
        """Return whether the first process will print the summary for this one."""
        return self._descent is not None and (not self.trainings or self.leave_note())

    def stand_aside(self) -> None:
        """Stop watching: the program watches itself."""
        if self.is_ours() and not self.stands_aside and not self.rank:
            self.attempt("reporting unused options", self._tell_unused)
        self.stands_aside = True
        self.close()

    def _tell_unused(self) -> None:
        from tb_netdebug.training.zero_code.run_summary import unused_options

        told = unused_options(self.asked, os.environ)
        if told:
            say(told)

    def unrecorded(self) -> list[str]:
        """Return why nothing was recorded, from discoveries that have seen something like a training."""
        found = [getattr(each, "unrecorded", lambda: "")() for each in self.discoveries]
        return [each for each in (*self._unrecorded, *found) if each]

    # ---- called by discoveries -----------------------------------------------------------------------------

    def open(self, make_adapter: Any) -> Training | None:
        """Open a run for a training that begins; return None if there have been too many."""
        with self._opening:
            return self._open(make_adapter)

    def _open(self, make_adapter: Any) -> Training | None:
        if self.is_off or not self.may_open():
            self.passed_over += 1
            return None
        began = now()
        place = self._place()
        training = Training(
            make_adapter,
            self._settings,
            place.folder,
            self.rank,
            first_step=place.first_step,
            is_one_of_many=self._descent is not None,
        )
        if self.trainings:
            self._opening_secs += now() - began
        self._close_the_idlest()
        self.trainings.append(training)
        if self._descent is not None:
            self._announce(training)
        return training

    def may_open(self) -> bool:
        """Return whether one more run is recorded: it must not cost too much, nor be one of too many."""
        allowed = GRACE_SECS + self._settings.overhead * (now() - self._began)
        short = sum(not training.is_open and training.steps < SHORT_STEPS for training in self.trainings)
        return self._opening_secs <= allowed and len(self.trainings) < MOST_RUNS and short < MOST_SHORT

    def attempt(self, doing: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as error:
            self.fault(doing, error)

    def fault(self, doing: str, error: Exception) -> None:
        """Report an error of NetDebug; raise it again if it is meant for the program."""
        if is_from_a_handler(error):
            raise error
        self.faults += 1
        self.is_off = self.faults >= MOST_FAULTS
        if self.faults == 1:
            say(
                f"NetDebug failed while {doing}: {type(error).__name__}: {error}. The script continues; "
                "this part is not recorded."
            )

    @property
    def may_close_aside(self) -> bool:
        """Whether another thread may close runs: not where findings stop the program in its own thread."""
        return self._settings.on_finding in ("print", "ignore")

    # ---- parts ---------------------------------------------------------------------------------------------

    def _discover(self, framework: str, module: str) -> None:
        if self.is_off:
            return
        self.found.append(framework)
        try:
            self.discoveries.append(importlib.import_module(module).discover(self))
        except Exception as error:
            self.fault(f"setting itself up for {framework}", error)

    def _close_the_idlest(self) -> None:
        running = [training for training in self.trainings if training.is_open]
        if len(running) >= MOST_OPEN:
            min(running, key=lambda training: training.last_step_secs).close()

    def _place(self) -> RunPlace:
        """Return the run's folder, as for `watch`; a further training of the program gets a numbered name."""
        from tb_netdebug.recording import run_folder

        self.rank = run_folder.rank(os.environ)
        launch = self._descent.root if self._descent is not None else ""
        name, wish = self._name(), self._settings.run
        place = run_folder.run_place(
            self.logdir, name, os.environ, resume=self._settings.resume, launch=launch
        )
        if not self.trainings and name == wish:
            is_resumed = self._settings.resume
            told = (
                run_folder.told_of_resuming(place)
                if is_resumed
                else run_folder.told_of_suffix(place, wish, "--resume")
            )
            if told and not self.rank:
                say(f"NetDebug: {told}")
        return place

    def _name(self) -> str | None:
        """Return the name of the run; None leaves it to the date."""
        from tb_netdebug.recording.run_folder import is_distributed

        if self.trainings:
            return f"{self._relative(self.trainings[0].run_dir)}-{len(self.trainings) + 1}"
        if self._descent is None:
            return self._settings.run
        if is_distributed(os.environ) or self._descent.is_orphan:
            return self._descent.run
        return f"{self._descent.run}-{self._descent.label}"

    def _relative(self, run_dir: Path) -> str:
        with suppress(ValueError):
            return str(run_dir.relative_to(self.logdir))
        return run_dir.name

    def _before_leaving(self, status: int) -> NoReturn:
        """Bring what was recorded to the disk before `os._exit` ends the program without further notice."""
        if self._pid == os.getpid():
            for training in self.trainings:
                with suppress(Exception):  # the program is leaving, and nobody is there to read a message
                    training.flush(FLUSH_SECS)
            if self.trainings and not self.is_finished and not self.rank:
                with suppress(Exception):
                    self.is_finished = True
                    self.leave_note()
        self._leave(status)

    def forget(self) -> None:
        """Turn the watch off: there is nothing to watch."""
        self.is_off = self.stands_aside = True

    # ---- processes that the program starts -----------------------------------------------------------------

    @property
    def descent(self) -> Descent:
        """The descent of processes that this one starts: their runs are named after its own."""
        if self._descent is not None:
            return self._descent
        if self.trainings:
            run = self._relative(self.trainings[0].run_dir)
        else:
            began = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(self._began_at))
            run = self._settings.run or began
        return Descent(self._root, run, "")

    @property
    def carries_on(self) -> bool:
        return self.is_ours() and not self.is_off

    @property
    def carried_settings(self) -> Settings:
        """The settings as plain values."""
        logdir = None if self._settings.is_spooled else str(self.logdir)
        return replace(self._settings, logdir=logdir)

    def results(self) -> list[Result]:
        """Return the results of this process and, in the first one, of those that it has started."""
        own = [result_of(training) for training in self.trainings]
        if self._descent is None:
            self._told.update((each.run_dir, each) for each in Notes(self._root).take())
        return own + list(self._told.values())

    def leave_note(self) -> bool:
        """Leave a note for the first process; return whether that will report for this one."""
        if self._descent is None or self._descent.is_orphan:
            return False
        own = [result_of(training) for training in self.trainings]
        return Notes(self._descent.root).write(own, passed_over=self.passed_over, is_over=self.is_finished)

    def trains_unrecorded(self) -> None:
        """Report that an optimizer steps in a forked child that is not watched."""
        if self.is_unrecorded_child:
            self.is_unrecorded_child = False
            say(
                f"NetDebug: process {os.getpid()} trains but is not recorded, because it was forked while a "
                'run was being recorded. Start it with the method "spawn", or call nd.watch in it.'
            )

    def _carry_on(self) -> None:
        self.attempt("setting itself up for spawned processes", self._make_carrier)

    def _make_carrier(self) -> None:
        self._carrier = Carrier(self)

    def _announce(self, training: Training) -> None:
        if len(self.trainings) == 1:
            descendants.finish_with_process(self.finish)
        if not self.rank:
            is_read = self.leave_note()
            if not is_read and len(self.trainings) == 1:
                say(
                    "NetDebug: this process still runs after the one that started it ended, and is "
                    f"recorded in {training.run_dir}."
                )

    def _has_forked(self) -> None:
        self.forks += 1

    def _was_forked(self) -> None:
        """Set up a forked child.

        Threads and files of a run that is being recorded do not survive the fork.
        """
        process = descendants.process_in(sys._getframe(1))
        if self.is_off or self.is_finished or descendants.is_loader_worker(process):
            self.forget()
        elif self.trainings:
            self.forget()
            self.is_unrecorded_child = True
        else:
            self._descent = self.descent.child(process)
            self._pid = os.getpid()
            self._opening = threading.Lock()
            for discovery in self.discoveries:
                getattr(discovery, "forked", lambda: None)()


_installed: weakref.WeakSet[ZeroCode] = weakref.WeakSet()


def all_stand_aside() -> None:
    """Turn off all watches: a callback of NetDebug will watch what the program is about to train."""
    for each in list(_installed):
        each.stand_aside()


def say(text: str) -> None:
    """Print to the terminal, if there still is one."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{visible_lines(text)}\n")
        sys.stderr.flush()
