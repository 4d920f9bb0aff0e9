"""Runs a script up to a given optimizer step, and returns what it had built by then.

Frameworks call `StepGate.reached` before a step changes anything. From the chosen step on it raises in every
thread and every forked child, whatever the script catches. A script that does not end is left running, and
the requested work is done beside it.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, NoReturn, Protocol

from tb_netdebug.core.user_code import foreign_folders
from tb_netdebug.experiments.rehearsal.channel import tell
from tb_netdebug.experiments.rehearsal.inert_monitor import watching_nothing
from tb_netdebug.experiments.rehearsal.spawned import stopping_spawned
from tb_netdebug.recording.frames import place_of, user_frame
from tb_netdebug.training.zero_code.first_import import FirstImport, when_imported
from tb_netdebug.training.zero_code.script import Script, ScriptEnding, run_as_main

# The module that detects the steps of a framework, by the framework whose import is awaited.
FRAMEWORKS = {
    "torch": "tb_netdebug.experiments.rehearsal.steps_on_torch",
    "keras": "tb_netdebug.experiments.rehearsal.steps_of_keras",
}
AUTOGRAPH = "__autograph_generated_file"
# A script that was stopped this many times, or did not end within this time, does not end by itself.
MOST_RAISED = 1000
PATIENCE_SECS = 10.0
# After this the keeper ends it from outside: it does not even let a thread of ours run.
GRACE_SECS = 10.0
# For a script whose children were stopped: it may reach a step of its own, or wait for them for ever.
CHILDREN_SECS = 30.0


class StepReached(SystemExit):
    """Ends the script. Being no Exception it is seldom caught; being a SystemExit it is not printed."""

    def __init__(self, code: int = 0) -> None:  # picklable: a pool sends it to its parent
        super().__init__(code)


@dataclass(slots=True)
class Subject:
    """Models and optimizers that are trained together, by the names that `netdebug run` gives them."""

    models: dict[str, Any]
    optimizers: list[Any] = field(default_factory=list)
    is_watched: bool = False


@dataclass(slots=True)
class Stopped:
    """What a script had built when it stopped.

    `error` is what ended it before its step; without `error` and `where` it ended normally. `without_step`
    says what it did until it was stopped at `where` although no step was seen.
    """

    script: str
    where: str = ""
    error: BaseException | None = None
    subjects: list[Subject] = field(default_factory=list)
    without_step: str = ""

    @property
    def has_stepped(self) -> bool:
        return bool(self.where)


class FrameworkSteps(Protocol):
    """The detected steps of one framework; created by `listen_to(gate)` of its module."""

    def subjects(self) -> list[Subject]:
        """Return what this framework trains, as far as it was seen."""


class StepGate:
    """Lets steps pass up to the chosen one, which is the n-th step of any one optimizer.

    `is_spawned` marks the gate of a process that the script has spawned.
    """

    def __init__(self, step: int, patience_secs: float = PATIENCE_SECS, *, is_spawned: bool = False) -> None:
        self._step = step
        self._is_spawned = is_spawned
        self._patience_secs = patience_secs
        self._pid = os.getpid()
        self._counts: dict[object, int] = {}
        self._lock = threading.RLock()
        self._raised = 0
        self._refused: set[int] | None = None
        self._is_in_use = False
        self._unwound = threading.Event()
        self._inside = threading.local()
        self._stuck: Callable[[], NoReturn] | None = None
        self.where = ""
        self.without_step = ""
        self.watched: list[Subject] = []
        self.steps: list[FrameworkSteps] = []
        self._found: list[Subject] | None = None

    # ---- called by frameworks ----------------------------------------------------------------------------

    def is_next(self, key: object) -> bool:
        """Return whether `reached` would stop there."""
        return not self._lets_pass() and (bool(self.where) or self._counts.get(key, 0) + 1 >= self._step)

    def reached(self, key: object) -> None:
        """Count a step that `key` is about to make. Raise StepReached at the chosen step and after it."""
        if self._lets_pass():
            return
        self._counts[key] = self._counts.get(key, 0) + 1
        if self.where or self._counts[key] >= self._step:
            self._stop()

    def exhausted(self, done: str) -> None:
        """Stop after so much was `done` that there may be an unseen step. Raise StepReached."""
        if not self._lets_pass():
            self.without_step = self.without_step or done
            self._stop()

    @contextmanager
    def step_of_framework(self) -> Iterator[None]:
        """Mark what this thread does within the block as part of a step that was counted."""
        self._inside.is_there = True
        try:
            yield
        finally:
            self._inside.is_there = False

    @property
    def is_inside_step(self) -> bool:
        return bool(getattr(self._inside, "is_there", False))

    def fault(self, doing: str, error: Exception) -> None:
        """Report a failure of our own on standard error; the script goes on."""
        sys.stderr.write(f"netdebug: failed while {doing}: {type(error).__name__}: {error}\n")

    # ---- the stop ----------------------------------------------------------------------------------------

    def _lets_pass(self) -> bool:
        """Return whether this thread may step: the caller may, once the script is stopped, see `open`."""
        if not self._is_in_use or os.getpid() != self._pid:
            return False
        return self._refused is None or threading.get_ident() not in self._refused

    def _stop(self) -> NoReturn:
        """Raise StepReached; at the first time, note the place and the models, and start the deadlines."""
        with self._lock:
            self._raised += 1
            if not self.where:
                # Frame 2 is the caller of `reached` or `exhausted`.
                self.where = user_line(sys._getframe(2))
                if self._is_spawned or os.getpid() != self._pid:
                    tell("child", self.where)
                else:
                    tell("waiting", "")
                    tell("limit", self._patience_secs + GRACE_SECS)
                if os.getpid() == self._pid:
                    self._found = self._look()
                    threading.Thread(target=self._wait, name="netdebug-stop", daemon=True).start()
        if self._raised > MOST_RAISED:
            self._give_up()
        raise StepReached

    def _look(self) -> list[Subject]:
        found = list(self.watched)
        for steps in self.steps:
            try:
                found += steps.subjects()
            except Exception as error:
                self.fault("looking for models", error)
        return found

    def subjects(self) -> list[Subject]:
        return self._look() if self._found is None else self._found

    def _wait(self) -> None:
        if not self._unwound.wait(self._patience_secs):
            self._give_up()

    def _give_up(self) -> None:
        """Leave the script running and use what was found; end a forked child at once."""
        if os.getpid() != self._pid or self._stuck is None:
            os._exit(0)
        with self._lock:  # only one thread gets through; the others wait until the process is gone
            if not self._unwound.is_set():
                self._stuck()

    # ---- after the stop ----------------------------------------------------------------------------------

    def ended(self, *, is_interrupted: bool = False) -> None:
        """Note that the script has ended, by itself or by StepReached.

        Work that is being done beside it is waited for without limit, unless it was interrupted.
        """
        if os.getpid() == self._pid:  # not in a child that the script has forked
            tell("waiting", "")
            tell("limit", None)
        with nullcontext() if is_interrupted else self._lock:
            self._unwound.set()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let this thread, and threads that it starts, make steps; the threads of the script may not."""
        own = threading.get_ident()
        self._refused = {each.ident or 0 for each in threading.enumerate() if each.ident != own}
        self._is_in_use = True
        try:
            yield
        finally:
            self._is_in_use = False

    def when_stuck(self, use: Callable[[], int]) -> None:
        """Set what to do if the script does not end; the process exits with the status that `use` returns."""

        def leave() -> NoReturn:
            code = 1
            try:
                code = use()
            finally:
                tell("done", code)  # os._exit skips the ordinary end, which would report it
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(code)

        self._stuck = leave


def run_to_step(
    script: Script, use: Callable[[Stopped], int], *, step: int = 1, patience_secs: float = PATIENCE_SECS
) -> int:
    """Run a script to its `step` and return what `use` makes of its models.

    Raise OSError when there is no such script; see also `stop_before_step`.
    """
    program = partial(run_as_main, script)
    return stop_before_step(script.name, program, use, step=step, patience_secs=patience_secs)


def stop_before_step(
    name: str,
    program: Callable[[], ScriptEnding],
    use: Callable[[Stopped], int],
    *,
    step: int = 1,
    patience_secs: float = PATIENCE_SECS,
) -> int:
    """Run a user's code to its `step` and return what `use` makes of its models; messages call it `name`.

    Call it in a process that does nothing afterwards (see `hold`); `use` may stop another program in the same
    way. Raise KeyboardInterrupt when the program was interrupted.
    """
    gate = StepGate(step, patience_secs)

    def finish(error: BaseException | None = None) -> int:
        with gate.open():
            return use(Stopped(name, gate.where, error, gate.subjects(), gate.without_step))

    def finish_beside() -> int:
        tell("limit", None)
        sys.stderr.write(f"netdebug: {name} does not end when asked to; it is left running\n")
        return finish()

    gate.when_stuck(finish_beside)
    with watching_nothing(gate), listening(gate), stopping_spawned(step):
        sys.excepthook = lambda *_: None  # the caller reports what ended the script, in a sentence
        threading.excepthook = quiet(threading.excepthook)
        tell("waiting", f"{name} has made no optimizer step")
        tell("patience", CHILDREN_SECS)
        ending = program()
        is_interrupted = isinstance(ending.error, KeyboardInterrupt)
        gate.ended(is_interrupted=is_interrupted)
        if is_interrupted:
            raise KeyboardInterrupt
        error = ending.error
        # A script that exits with a failure before its step has failed.
        if error is None and not gate.where and ending.status:
            error = SystemExit(ending.status)
        return finish(None if gate.where else error)


def user_line(frame: FrameType | None) -> str:
    """Return the line of the script that is running, not that of code which TensorFlow generated from it."""
    folders = library_folders()
    while (frame := user_frame(frame, folders)) is not None:
        if not os.path.basename(frame.f_code.co_filename).startswith(AUTOGRAPH):
            return place_of(frame)
        frame = frame.f_back
    return "its step"


def library_folders() -> tuple[str, ...]:
    """Return the folders of installed packages, and of frameworks that are installed elsewhere."""
    files = [getattr(sys.modules.get(name), "__file__", None) for name in (*FRAMEWORKS, "tensorflow")]
    return foreign_folders() + tuple(f"{os.path.dirname(each)}{os.sep}" for each in files if each)


def quiet(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return an excepthook for threads that does not print StepReached."""

    def hook(args: Any) -> Any:
        return None if args.exc_type is StepReached else show(args)

    return hook


@contextmanager
def listening(gate: StepGate) -> Iterator[None]:
    """Detect the steps of all frameworks, those imported later included.

    The hooks stay until the end of the process: atexit handlers must not train, either.
    """
    waiting = [
        when_imported(framework, partial(connect, gate, module)) for framework, module in FRAMEWORKS.items()
    ]
    refuse_to_begin_anew()
    try:
        yield
    finally:
        for each in waiting:
            if isinstance(each, FirstImport):
                each.close()


def connect(gate: StepGate, module: str) -> None:
    """Start the step detection of a framework; a failure is reported and leaves the script running."""
    try:
        gate.steps.append(importlib.import_module(module).listen_to(gate))
    except Exception as error:
        gate.fault("getting ready to stop the script", error)


def refuse_to_begin_anew() -> None:
    """Refuse os.execv: a script that restarts itself would leave us behind, and train."""
    pid = os.getpid()

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.exec" and os.getpid() == pid:
            raise OSError(f"NetDebug does not let the script replace itself with {arguments[0]!r}")

    sys.addaudithook(look)
