"""Carries the watch into processes that the program starts by multiprocessing or by a fork.

A spawned process begins as a new interpreter; the "preparation data" that it gets first brings the watch
along. The workers of data loaders are left alone. A forked process has the watch in its memory already.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tb_netdebug.recording.settings import Settings
    from tb_netdebug.training.zero_code.driver import ZeroCode

SPAWN = "multiprocessing.spawn"
PREPARES = "get_preparation_data"
KEY = "netdebug"
# Two readings of the clock that mean the same time may be this far apart.
CLOCK_SECS = 1.0
# The module of the function that workers of a DataLoader run.
LOADERS = "torch.utils.data."
# Runs in the new process before any of the program does: nothing may go wrong there.
CARRIED = """
try:
    import sys
    _added = {path!r} not in sys.path
    if _added:
        sys.path.append({path!r})
    try:
        from tb_netdebug.training.zero_code.descendants import begin
    finally:
        if _added:
            sys.path.remove({path!r})
    begin({told!r})
except Exception:
    pass
"""


@dataclass(frozen=True, slots=True)
class Descent:
    """The origin of a process.

    It is the process that `netdebug run` began, the name of its run, and which of its processes this one is.
    """

    root: str
    run: str
    label: str

    def child(self, process: Any) -> Descent:
        """Return the descent of a `multiprocessing.Process`, or of a fork without one."""
        identity = getattr(process, "_identity", ())
        label = f"process{'-'.join(map(str, identity))}" if identity else f"pid{os.getpid()}"
        return Descent(self.root, self.run, label)

    @property
    def is_orphan(self) -> bool:
        """Whether the first process has ended, and will not report for this one."""
        import psutil

        _, pid, began = self.root.rsplit(":", 2)
        try:
            first = psutil.Process(int(pid))
            is_same = first.create_time() <= float(began) + CLOCK_SECS  # else the pid was used again
            return not is_same or first.status() == psutil.STATUS_ZOMBIE
        except psutil.Error:
            return True


def root_named(pid: int, began: float) -> str:
    """Return the name of the process that `netdebug run` began; works before psutil may be imported."""
    return f"{os.uname().nodename}:{pid}:{began:.2f}"


class CarriedWatch:
    """Pickles as a call that sets up the watch in the process that unpickles it."""

    def __init__(self, told: str) -> None:
        self._told = told

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        path = str(Path(__file__).resolve().parents[3])
        return exec, (CARRIED.format(path=path, told=self._told), {})


class Carrier:
    """Puts the watch into the preparation data of processes that are spawned, until `close`."""

    def __init__(self, watched: ZeroCode) -> None:
        self._watched = watched
        self._spawn = vars(sys.modules[SPAWN])
        self._original = self._spawn[PREPARES]
        self._own = self._prepared
        self._spawn[PREPARES] = self._own

    def close(self) -> None:
        """Restore the original function.

        May be repeated, and does nothing if another one has replaced this since.
        """
        if self._spawn[PREPARES] is self._own:
            self._spawn[PREPARES] = self._original

    def _prepared(self, name: str) -> Any:
        data = self._original(name)
        process = process_in(sys._getframe(1))
        watched = self._watched
        if process is not None and not is_loader_worker(process) and watched.carries_on:
            watched.attempt("going on in a spawned process", lambda: self._add(data, process))
        return data

    def _add(self, data: dict[str, Any], process: Any) -> None:
        descent = self._watched.descent.child(process)
        told = json.dumps({"settings": asdict(self._watched.carried_settings), "descent": asdict(descent)})
        data[KEY] = CarriedWatch(told)


def begin(told: str) -> None:
    """Watch a spawned process as the first one is watched; called in it."""
    from tb_netdebug.recording.settings import Settings
    from tb_netdebug.training.zero_code.driver import ZeroCode

    found = json.loads(told)
    settings: Settings = Settings(**found["settings"])
    ZeroCode(settings, descent=Descent(**found["descent"])).install()


def process_in(frame: FrameType | None) -> Any:
    """Return the `multiprocessing.Process` that the function of this frame is starting."""
    return None if frame is None else frame.f_locals.get("process_obj")


def is_loader_worker(process: Any) -> bool:
    return str(getattr(getattr(process, "_target", None), "__module__", "")).startswith(LOADERS)


def finish_with_process(finish: Callable[[], None]) -> None:
    """Call `finish` at the end of a multiprocessing child; if it was forked, it never runs `atexit`."""
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is None or multiprocessing.parent_process() is None:
        return
    from multiprocessing.util import Finalize

    # Below 0: after the finalizers of the program, and when its own children have been joined.
    Finalize(None, finish, exitpriority=-100)
