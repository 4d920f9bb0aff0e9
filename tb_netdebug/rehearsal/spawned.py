"""Takes the stop along into processes that multiprocessing starts anew; forked ones have it already."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from multiprocessing import get_start_method
from multiprocessing.process import BaseProcess
from typing import Any


class Spawned:
    """Stands for the function that such a process is to call; what it trains ends before the same step."""

    def __init__(self, target: Callable[..., Any], step: int) -> None:
        self._target = target
        self._step = step

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from tb_netdebug.rehearsal.inert_monitor import watching_nothing
        from tb_netdebug.rehearsal.stop import Gate, listening

        gate = Gate(self._step)
        with ExitStack() as stack:
            stack.enter_context(watching_nothing(gate))
            stack.enter_context(listening(gate))
            return self._target(*args, **kwargs)


@contextmanager
def stopping_spawned(step: int) -> Iterator[None]:
    """Processes that are started while it is open."""
    real = BaseProcess.start

    @wraps(real)
    def start(process: Any) -> None:
        method = getattr(process, "_start_method", None) or get_start_method()
        if method != "fork" and process._target is not None:
            process._target = Spawned(process._target, step)
        real(process)

    BaseProcess.start = start  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        BaseProcess.start = real  # type: ignore[method-assign]
