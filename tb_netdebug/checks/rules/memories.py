"""Rules over memory: it keeps growing, or it is nearly all taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.curve import Curve, Doubles
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.phrases import percent, size
from tb_netdebug.core.records.scalar_names import CHILDREN_RSS, GPUS, HOST_AVAILABLE, MEMORY, RSS

MB = 1 << 20


def what(name: str) -> str:
    """Return a memory reading in words."""
    middle = name.split("/")[1]
    return {"rss": "this process", "children_rss": "its child processes"}.get(middle, f"the device {middle}")


@dataclass(frozen=True, slots=True)
class MemoryGrowthLimits:
    steps: float = 200  # at first, caches fill and pools grow
    megabytes: float = 512.0  # in all windows together
    windows: float = 4  # memory must have grown in each of them; fewer while there are fewer readings
    fewest_windows: float = 2  # a reading comes every second or so
    evenness: float = 0.3  # least growth of a window relative to the mean, so that one jump is not a leak
    skipped: float = 0.2  # share of the steps at the beginning, if enough readings are left


class MemoryGrowth(Rule):
    """Memory grows in every window of the run."""

    slug = "memory-growth"
    when = When.STEPS
    needs = ("memory",)
    limits = MemoryGrowthLimits()

    def __init__(self) -> None:
        self._read: dict[str, int] = {}

    def update(self, history: History) -> Iterator[Sign]:
        if history.steps < self.limits.steps:
            return
        for curve in history.curves(MEMORY):
            is_own = curve.name in (RSS, CHILDREN_RSS)
            # Of a device: what torch has allocated, or what this process takes. What others take is no leak
            # here.
            if not is_own and not curve.name.endswith(("/allocated", "/process")):
                continue
            if self._read.get(curve.name) != curve.count:  # a reading comes every second or so
                self._read[curve.name] = curve.count
                yield from self._judge(curve, history.step)

    def _judge(self, curve: Curve, step: int) -> Iterator[Sign]:
        limits = self.limits
        if curve.highest - curve.lowest < limits.megabytes * MB:
            return
        floors = self._floors(*course(curve))
        windows = len(floors) - 1
        if windows < limits.fewest_windows:
            return
        rises, whole = np.diff(floors), float(floors[-1] - floors[0])
        if whole < limits.megabytes * MB or rises.min() < limits.evenness * rises.mean():
            return
        first = curve.windows[0].first_step
        yield Sign(
            Severity.WARNING,
            f"The memory of {what(curve.name)} grew from {size(float(floors[0]))} to "
            f"{size(float(floors[-1]))}, in each of {windows} parts of the training (more than "
            f"{size(limits.megabytes * MB)} is too much): something is kept from every step.",
            "Keep numbers, not tensors: `losses.append(loss.item())` or `loss.detach()`; a loss that is "
            "kept keeps its whole graph in memory. Look also for lists and caches that are never emptied.",
            {
                "growth in bytes": Evidence(whole, limits.megabytes * MB),
                "bytes a step": Evidence(whole / max(step - first, 1)),
            },
            where=(curve.name,),
            since=first,
            sureness=0.75,
        )

    def _floors(self, steps: Doubles, readings: Doubles) -> Doubles:
        """Return the lowest reading of each part of the run: memory that is given back is not a leak.

        Parts have equally many steps, because readings are closer together in the beginning.
        """
        late = steps - steps[0] >= self.limits.skipped * (steps[-1] - steps[0])
        if np.count_nonzero(late) > self.limits.fewest_windows:
            steps, readings = steps[late], readings[late]
        parts = max(min(int(self.limits.windows) + 1, len(readings)), 1)
        part = np.searchsorted(np.linspace(steps[0], steps[-1], parts + 1)[1:-1], steps, side="right")
        return np.array([readings[part == each].min() for each in np.unique(part)])


def course(curve: Curve) -> tuple[Doubles, Doubles]:
    """Return steps and readings one by one, or the lowest of each window if there are too many."""
    steps, readings = np.array(curve.steps, float), np.array(curve.values, float)
    if curve.count > len(readings):
        windows = curve.windows
        return np.array([each.first_step for each in windows]), np.array([each.lowest for each in windows])
    is_known = np.isfinite(readings)
    return steps[is_known], readings[is_known]


@dataclass(frozen=True, slots=True)
class PressureLimits:
    readings: float = 3  # readings in a row; a short peak does not count
    host_left_megabytes: float = 256.0  # below it, the system begins to swap or to end processes
    host_left_share: float = 0.02  # of what this process and the free memory are together
    device_share: float = 0.97  # of the memory of a GPU
    device_info_share: float = 0.92


class MemoryPressure(Rule):
    """Memory of the host or of a GPU is nearly all taken."""

    slug = "memory-pressure"
    when = When.STEPS
    needs = ("memory",)
    limits = PressureLimits()

    def update(self, history: History) -> Iterator[Sign]:
        host = history.curve(HOST_AVAILABLE)
        if host is not None:
            yield from self._host(host, history.curve(RSS))
        for curve in history.curves(GPUS):
            if curve.name.endswith("/used"):
                yield from self._device(curve, history.curve(curve.name.replace("/used", "/total")))

    def _host(self, host: Curve, own: Curve | None) -> Iterator[Sign]:
        limits = self.limits
        left = host.tail(int(limits.readings))
        taken = own.last if own is not None else 0.0
        limit = max(limits.host_left_megabytes * MB, limits.host_left_share * (host.last + taken))
        if len(left) < limits.readings or left.max() > limit:
            return
        yield Sign(
            Severity.WARNING,
            f"The host has {size(left[-1])} of memory left (less than {size(limit)} is too little), and "
            f"this process takes {size(taken)}: the system will soon slow down, or kill a process.",
            "Use smaller batches or fewer workers in the DataLoader, load the data in pieces, or close "
            "other programs.",
            {"bytes left": Evidence(float(left[-1]), limit), "bytes of this process": Evidence(taken)},
            where=(HOST_AVAILABLE,),
            sureness=0.8,
        )

    def _device(self, used: Curve, total: Curve | None) -> Iterator[Sign]:
        limits = self.limits
        taken = used.tail(int(limits.readings))
        if total is None or not total.last > 0 or len(taken) < limits.readings:
            return
        share = float(taken.min() / total.last)
        if share < limits.device_info_share:
            return
        yield Sign(
            Severity.WARNING if share >= limits.device_share else Severity.INFO,
            f"{percent(share)} of the memory of {used.name.split('/')[1]} is in use "
            f"({percent(limits.device_share)} is too much): a slightly larger batch would run out of "
            "memory.",
            "Use smaller batches and accumulate gradients, use mixed precision (torch.autocast), or "
            "recompute activations (torch.utils.checkpoint).",
            {"share of the device's memory": Evidence(share, limits.device_share)},
            where=(used.name,),
            sureness=0.7,
        )
