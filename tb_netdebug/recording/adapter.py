"""The interface between the monitor and a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tb_netdebug.core.records.step import Units
from tb_netdebug.debugger.workbench import Stops, Workbench
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings


class Adapter(Protocol):
    """The framework's side of a recording: it fills the monitor's collector while a step runs.

    All methods are called on the training thread. None may raise because of what the user's model does.
    """

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        """Put the loss, the scalars and whatever is known only now of the step into the collector.

        Return True if some numbers are still on their way from a device; `late` returns them.
        """

    def late(self, *, wait: bool) -> list[tuple[int, dict[str, float], list[Any]]]:
        """Return what has arrived since the last call: (step, scalars, samples) of steps that have ended."""

    def prepare(self, *, sampling: bool) -> None:
        """Prepare the next step: install or remove hooks, and keep what sampling it requires."""

    def summary_of(self, value: Any) -> tuple[bytes, Units | None] | None:
        """Return a packed summary of a tensor that the user hands in; None if it cannot be read now."""

    def pixels_of(self, value: Any) -> Any:
        """Return an image as a NumPy array."""

    def memory(self) -> dict[str, float]:
        """Return readings of the framework's own allocators."""

    def describe(self) -> dict[str, Any]:
        """Return the run's description: versions, devices, and in `not_watched` one sentence per omission."""

    def graph(self) -> bytes | None:
        """Return the encoded graph once it is known, and only once."""

    def workbench(self, stops: Stops) -> Workbench:
        """Return a workbench for this run's debugger, which is called at `stops`. The caller closes it."""

    def close(self) -> None:
        """Remove all hooks."""


MakeAdapter = Callable[[StepCollector, Guard, Settings], Adapter]


def listed(optimizer: Any) -> list[Any]:
    """Return the optimizers given to `nd.watch`: one, several in a list or by name, or None."""
    if isinstance(optimizer, Mapping):
        return list(optimizer.values())
    if isinstance(optimizer, list | tuple):
        return list(optimizer)
    return [] if optimizer is None else [optimizer]
