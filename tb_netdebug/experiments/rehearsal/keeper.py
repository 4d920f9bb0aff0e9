"""The process between the caller and the held one: starts it, waits for it, and cleans up after it.

It starts with one thread and no heavy imports, as namespaces require; the held process is forked from it.
Processes that the held one leaves behind become its children and are ended.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import psutil

from tb_netdebug.experiments.rehearsal import syscalls
from tb_netdebug.experiments.rehearsal.channel import open_to_keeper, tell
from tb_netdebug.experiments.rehearsal.confinement_levels import (
    UNAVAILABLE,
    Confinement,
    ConfinementUnavailableError,
    hold_of,
)
from tb_netdebug.experiments.rehearsal.network import name_connections
from tb_netdebug.experiments.rehearsal.report import RehearsalReport

MOST_CHANGES = 10_000
# The time for atexit handlers, and for threads that nobody joins, after the task is done.
END_SECS = 10.0
TERM_SECS = 5.0
LEFTOVER_SECS = 1.0
LOOK_SECS = 0.05
# An upper bound for select: a signal may have changed the deadline meanwhile.
LISTEN_SECS = 1.0
# When to report what it waits for: first after this time, then after twice as long, and so on.
FIRST_WORD_SECS = 15.0
KILLED = "It did not end when asked to, and was killed."


@dataclass(frozen=True, slots=True)
class Order:
    """A task as the caller sends it: `task` is MODULE:FUNCTION, to be called with `arguments`."""

    level: str
    scratch: str
    task: str
    arguments: dict[str, Any]


def main(given: int, told: int) -> None:
    """Read the order from one descriptor and write the report to the other; called by `confinement.py`."""
    with os.fdopen(given) as file:
        order = Order(**json.load(file))
    parent = os.getppid()
    # SIGTERM, not SIGKILL: without its caller the keeper still has to end the children and remove the folder.
    syscalls.end_with_parent(signal.SIGTERM)
    syscalls.adopt_orphans()
    # Ctrl-C is for the held process, which is in the same process group.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        hold = hold_of(order.level)(order.scratch)
    except ConfinementUnavailableError as error:
        answer(told, {UNAVAILABLE: str(error)})
        return
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        os.close(told)
        # Does not return: it ends in SystemExit.
        act(order, hold, writing)
    os.close(writing)
    report = Keeper(pid, reading, parent).wait()
    end_leftovers(report)
    report.level = order.level
    report.changes = list(islice(hold.changes(), MOST_CHANGES))
    report.read_only = hold.read_only
    report.notes += hold.notes()
    answer(told, json.loads(report.to_json()))
    if os.getppid() != parent:  # the caller is gone and cannot
        shutil.rmtree(order.scratch, ignore_errors=True)


def answer(told: int, content: dict[str, Any]) -> None:
    with suppress(BrokenPipeError), os.fdopen(told, "w") as file:
        json.dump(content, file)


# ---- the held process ------------------------------------------------------------------------------------


def act(order: Order, hold: Confinement, writing: int) -> None:
    """Run the task in the forked child, followed by the ordinary end of a Python program."""
    syscalls.end_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    open_to_keeper(writing)
    pid = os.getpid()
    module, _, name = order.task.partition(":")
    hold.begin()
    name_connections(lambda named: tell("connection", named))
    # Compiled files would be listed as changes that the script makes.
    sys.dont_write_bytecode = True
    task: Callable[..., object] = getattr(importlib.import_module(module), name)
    try:
        result = task(**order.arguments)
        status = result if isinstance(result, int) else 0
    except KeyboardInterrupt:
        sys.stderr.write("netdebug: interrupted\n")
        status = 130
    if os.getpid() == pid:  # not in a child that the script has forked and that returned here
        tell("done", status)
    raise SystemExit(status)


# ---- the keeper ------------------------------------------------------------------------------------------


class Keeper:
    """Waits for the held process, reads its messages, and enforces its deadlines."""

    def __init__(self, pid: int, reading: int, parent: int) -> None:
        self._pid = pid
        self._reading = reading
        self._parent = parent
        self._heard = b""
        self._report = RehearsalReport()
        self._deadline = float("inf")
        self._limit = float("inf")
        self._killed = KILLED
        self._patience: float | None = None
        self._task_status: int | None = None
        self._waiting_for = ""
        self._waiting_since = 0.0
        self._word_secs = FIRST_WORD_SECS
        os.set_blocking(reading, False)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGHUP, self._terminate)
        signal.signal(signal.SIGUSR1, self._interrupt)
        if os.getppid() != parent:  # the caller ended before we could notice
            self._terminate()

    def wait(self) -> RehearsalReport:
        """Wait until the process has ended and return the report."""
        # Without pidfd (other systems, old kernels), poll at short intervals instead.
        descriptor = pidfd_of(self._pid)
        waiting_for = [each for each in (self._reading, descriptor) if each is not None]
        while True:
            until = min(self._deadline, self._limit) - time.monotonic()
            timeout = min(until, LISTEN_SECS if descriptor is not None else LOOK_SECS)
            ready, _, _ = select.select(waiting_for, [], [], max(timeout, 0))
            if self._reading in ready and not self._hear():
                waiting_for.remove(self._reading)
                if descriptor is None:
                    waiting_for = []
            if self._has_ended():
                break
            if time.monotonic() >= self._limit:
                self._report.notes.append(self._killed)
                self._limit, self._deadline = float("inf"), 0.0
            if time.monotonic() >= self._deadline:
                os.kill(self._pid, signal.SIGKILL)
                self._deadline = time.monotonic() + TERM_SECS
            self._say_what_is_waited_for()
        self._hear()
        self._note_messages()
        return self._report

    def _has_ended(self) -> bool:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if not pid:
            return False
        code = os.waitstatus_to_exitcode(status)
        # Killed after its task was done: the status of the task counts.
        was_ended = code < 0 and self._task_status is not None
        self._report.status = self._task_status if was_ended and self._task_status is not None else code
        return True

    def _hear(self) -> bool:
        """Read the messages that are there, and return whether there may be more."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._reading, 1 << 16):
                self._heard += chunk
                self._note_messages()
            return False
        return True

    def _note_messages(self) -> None:
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            kind, value = json.loads(line)
            if kind == "connection" and value not in self._report.connections:
                self._report.connections.append(value)
            elif kind == "waiting":  # what it waits for, as text; empty for nothing
                self._waiting_for, self._waiting_since = value, time.monotonic()
                self._word_secs = FIRST_WORD_SECS
            elif kind == "limit":  # seconds from now; works even while the GIL is held
                self._limit = time.monotonic() + (float("inf") if value is None else float(value))
                self._killed, self._patience = KILLED, None
            elif kind == "patience":  # in seconds after a child was stopped, until the next limit
                self._patience = float(value)
            elif kind == "child":  # a child of the script was stopped
                self._child_was_stopped(value)
            elif kind == "idle":  # it ended before anything of the user's ran
                self._report.is_idle = True
            elif kind == "done":
                self._report.is_done = True
                self._task_status = int(value)
                self._deadline = min(self._deadline, time.monotonic() + END_SECS)

    def _child_was_stopped(self, place: str) -> None:
        """Start the limit for a script whose child was stopped.

        The script may still reach its own step or its end, or wait for its children for ever.
        """
        if self._patience is not None:
            self._limit, self._patience = time.monotonic() + self._patience, None
            self._waiting_for = f"a process of the script was stopped ({place}); the script has not ended"
            self._killed = (
                f"It trains in processes that it starts ({place}). It did not end without them and was "
                "killed; give --model MODULE:CALLABLE instead."
            )

    def _say_what_is_waited_for(self) -> None:
        waited = time.monotonic() - self._waiting_since
        if self._waiting_for and waited >= self._word_secs:
            self._word_secs *= 2
            sys.stderr.write(f"netdebug: {self._waiting_for} after {waited:.0f} s; Ctrl-C ends it\n")

    def _terminate(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGTERM)
        self._deadline = time.monotonic() + TERM_SECS

    def _interrupt(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGINT)


def pidfd_of(pid: int) -> int | None:
    with suppress(OSError, AttributeError):
        return os.pidfd_open(pid)
    return None


def end_leftovers(report: RehearsalReport) -> None:
    """Let leftover processes end by themselves for LEFTOVER_SECS, then name and kill the others."""
    deadline = time.monotonic() + LEFTOVER_SECS
    named: dict[int, str] = {}
    while reap_children():
        if time.monotonic() >= deadline:
            for each in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if each.status() != psutil.STATUS_ZOMBIE:
                        named.setdefault(each.pid, f"{each.name()} ({each.pid})")
                        each.kill()
        time.sleep(0.01)
    report.ended += named.values()


def reap_children() -> bool:
    """Reap the children that have ended, and return whether there are others.

    Only wait() is reliable here: a process list read from /proc is not a consistent snapshot.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False
