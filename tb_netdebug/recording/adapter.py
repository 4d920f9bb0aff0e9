"""The seam between the monitor and a framework."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tb_netdebug.core.records.step import Units
from tb_netdebug.debugger.workbench import Stops, Workbench
from tb_netdebug.recording.collector import StepCollector
from tb_netdebug.recording.guard import Guard
from tb_netdebug.recording.settings import Settings


class Adapter(Protocol):
    """What a framework does for the monitor: it fills the monitor's collector while a step runs.

    All methods are called on the training thread. None may raise because of what the user's model does.
    """

    def end_step(self, loss: Any, scalars: dict[str, Any]) -> bool:
        """Puts loss and scalars into the collector, and what is known of the step only now. True when some
        numbers are still on their way from a device; `late` brings them."""

    def late(self, *, wait: bool) -> list[tuple[int, dict[str, float], list[Any]]]:
        """What has arrived since: (step, scalars, samples) of steps that were ended before."""

    def prepare(self, *, sampling: bool) -> None:
        """Whether the next step is sampled: keep what must be kept for it, put hooks on or take them off."""

    def summary_of(self, value: Any) -> tuple[bytes, Units | None] | None:
        """A packed summary of a tensor that the user hands in; None when it cannot be read now."""

    def pixels_of(self, value: Any) -> Any:
        """An image as a NumPy array."""

    def memory(self) -> dict[str, float]:
        """Readings of the framework's own allocators."""

    def describe(self) -> dict[str, Any]:
        """For the run's description: versions, devices, and in `not_watched` a sentence each."""

    def graph(self) -> bytes | None:
        """The encoded graph, once, when it is known."""

    def workbench(self, stops: Stops) -> Workbench:
        """For the debugger of this training, which is told at `stops` where it is. Closed by who asked."""

    def close(self) -> None:
        """Takes all hooks away."""


MakeAdapter = Callable[[StepCollector, Guard, Settings], Adapter]


def listed(optimizer: Any) -> list[Any]:
    """What `nd.watch` takes: one, several in a list or by name, or None."""
    if isinstance(optimizer, Mapping):
        return list(optimizer.values())
    if isinstance(optimizer, list | tuple):
        return list(optimizer)
    return [] if optimizer is None else [optimizer]
