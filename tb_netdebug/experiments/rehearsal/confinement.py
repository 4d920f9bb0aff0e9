"""Starts a task in a process of its own whose writes are held, and reports how it ended.

Called by `netdebug replay`. This is the caller's side; `keeper.py` is the process in between.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import tb_netdebug
from tb_netdebug.experiments.rehearsal.confinement_levels import UNAVAILABLE, levels
from tb_netdebug.experiments.rehearsal.report import RehearsalReport

# For tests, and for users who cannot use a level: only the levels listed in it are tried.
LEVELS = "NETDEBUG_REHEARSAL_LEVELS"
PREFIX = "netdebug-rehearsal-"
# The folder of the script is first in sys.path, but must not shadow the modules that we import ourselves.
START = (
    "import sys; first = sys.path[:1]; del sys.path[:1]; sys.path.append({package!r}); "
    "from tb_netdebug.experiments.rehearsal.keeper import main; sys.path[:0] = first; "
    "main({given}, {told})"
)


def hold(task: str, arguments: dict[str, Any]) -> RehearsalReport:
    """Call `task` in a held process and return the report.

    `task` is MODULE:FUNCTION; it takes arguments that JSON can express and returns an exit status. It shares
    the terminal, environment and working directory of this process; an interrupt reaches it, and SIGTERM ends
    it. What it and its children write is removed afterwards.
    """
    passed_over = []
    for level in wanted():
        with folder() as scratch, terminal_kept():
            content = StartedKeeper(level, scratch, task, arguments).wait()
        if UNAVAILABLE in content:
            passed_over.append(f"{level}: {content[UNAVAILABLE]}")
            continue
        report = RehearsalReport.of_json(json.dumps(content))
        report.passed_over = passed_over
        return report
    raise RuntimeError(f"writes cannot be confined here ({'; '.join(passed_over)})")


def wanted() -> Sequence[str]:
    """Return the levels to try, in order."""
    named = os.environ.get(LEVELS, "").replace(",", " ").split()
    return [each for each in levels() if not named or each in named]


@contextmanager
def folder() -> Iterator[str]:
    """Create an empty scratch folder; remove it afterwards, even with folders that nobody may enter."""
    path = os.path.realpath(tempfile.mkdtemp(prefix=PREFIX))
    try:
        yield path
    finally:
        remove(path)


def remove(path: str) -> None:
    for place, folders, _ in os.walk(path):
        for each in folders:
            with suppress(OSError):
                if not os.path.islink(os.path.join(place, each)):
                    os.chmod(os.path.join(place, each), 0o700)
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def terminal_kept() -> Iterator[None]:
    """Restore the terminal modes after the block: a process that was killed leaves them as they are."""
    try:
        modes = termios.tcgetattr(0)
    except (termios.error, OSError):
        modes = None
    try:
        yield
    finally:
        if modes is not None:
            with suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSADRAIN, modes)


class StartedKeeper:
    """A keeper process from its start to its report."""

    def __init__(self, level: str, scratch: str, task: str, arguments: dict[str, Any]) -> None:
        order = {"level": level, "scratch": scratch, "task": task, "arguments": arguments}
        given, giving = os.pipe()
        hearing, told = os.pipe()
        package = str(Path(tb_netdebug.__file__).parents[1])
        code = START.format(package=package, given=given, told=told)
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing
        try:
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", code], pass_fds=(given, told), close_fds=True
            )
        finally:
            os.close(given)
            os.close(told)
        self._told = os.fdopen(hearing)
        with suppress(BrokenPipeError), os.fdopen(giving, "w") as file:
            json.dump(order, file)

    def wait(self) -> dict[str, Any]:
        """Wait for the keeper and return its report."""
        with ExitStack() as stack:
            stack.callback(self._process.wait)
            stack.enter_context(self._told)
            if threading.current_thread() is threading.main_thread():
                stack.enter_context(self._signals())
            text = self._told.read()
        if not text:
            ended = RehearsalReport(
                status=self._process.returncode, notes=["The process that confined it was killed."]
            )
            text = ended.to_json()
        content: dict[str, Any] = json.loads(text)
        return content

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Forward signals to the keeper, except a Ctrl-C that has reached the held process already."""

        def interrupt(number: int, frame: FrameType | None) -> None:
            if not is_in_foreground():
                # The keeper ignores SIGINT, since Ctrl-C reaches it, too; SIGUSR1 is its order to interrupt.
                self._process.send_signal(signal.SIGUSR1)

        def terminate(number: int, frame: FrameType | None) -> None:
            self._process.send_signal(signal.SIGTERM)

        handlers = {signal.SIGINT: interrupt, signal.SIGTERM: terminate, signal.SIGHUP: terminate}
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def is_in_foreground() -> bool:
    """Return whether the terminal sends Ctrl-C to this process and everything that it has started."""
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
