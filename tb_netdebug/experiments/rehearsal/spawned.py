"""Carries the stop into processes that multiprocessing spawns; forked ones inherit it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from multiprocessing import get_start_method
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from typing import Any

from tb_netdebug.experiments.rehearsal import channel


class CarriedStop:
    """Is pickled in place of a spawned process, so that the child also stops before the same step.

    The process itself stays as the user made it, with a target or with a `run` of its own.
    """

    def __init__(self, process: Any, step: int, to_keeper: Sequence[Any] = ()) -> None:
        self._process = process
        self._step = step
        self._to_keeper = to_keeper

    def __reduce__(self) -> tuple[Any, ...]:
        return CarriedStop, (self._process, self._step, [DupFd(each) for each in channel.descriptors()])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)

    def _bootstrap(self, *args: Any, **kwargs: Any) -> Any:
        """Set up the stop and run the process; multiprocessing calls this in the child."""
        from tb_netdebug.experiments.rehearsal.inert_monitor import watching_nothing
        from tb_netdebug.experiments.rehearsal.stop import StepGate, listening

        for each in self._to_keeper:
            channel.open_to_keeper(each.detach())
        gate = StepGate(self._step, is_spawned=True)
        with ExitStack() as stack:
            stack.enter_context(watching_nothing(gate))
            stack.enter_context(listening(gate))
            stack.enter_context(stopping_spawned(self._step))
            return self._process._bootstrap(*args, **kwargs)


@contextmanager
def stopping_spawned(step: int) -> Iterator[None]:
    """Carry the stop into all processes that are started within the block."""
    real = BaseProcess.start

    @wraps(real)
    def start(process: Any) -> None:
        method = getattr(process, "_start_method", None) or get_start_method()
        if method == "fork":
            real(process)
        else:
            with carrying(process, step):
                real(process)

    BaseProcess.start = start  # type: ignore[assignment, method-assign]  # replaced on purpose
    try:
        yield
    finally:
        BaseProcess.start = real  # type: ignore[method-assign]  # and put back


@contextmanager
def carrying(process: Any, step: int) -> Iterator[None]:
    """Pickle the process together with the stop, if it is started within the block."""
    launch: Callable[[Any], Any] = process._Popen

    def launch_carried(whole: Any) -> Any:
        vars(process).pop("_Popen", None)  # otherwise it would be pickled, too
        return launch(CarriedStop(whole, step))

    vars(process)["_Popen"] = launch_carried
    try:
        yield
    finally:
        vars(process).pop("_Popen", None)
