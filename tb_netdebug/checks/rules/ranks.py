"""Rule over processes that train together: one that all others wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..curve import Curve
from ..finding import Evidence, Severity, Sign
from ..history import History
from ..phrases import percent, span
from ..rule import Rule, When

STEPS_COMPARED = 64
# What a process does by itself; in the backward pass it also waits for the others.
OWN = ("time/data", "time/forward", "time/optimizer")


@dataclass(frozen=True, slots=True)
class StragglerLimits:
    steps: float = 32
    share: float = 0.2  # of the step time of all: so much longer than the process in the middle
    secs: float = 0.005  # whatever the share: the noise of a machine
    times: float = 2  # how often in a row, so that it is no hiccup


class StragglerRank(Rule):
    """One of several processes is slower than the others, all the time."""

    slug = "straggler-rank"
    when = When.STEPS
    needs = ("ranks", "time")
    limits = StragglerLimits()

    def __init__(self) -> None:
        self._slow: dict[int, int] = {}

    def update(self, history: History) -> Sign | None:
        if not history.ranks or history.steps < self.limits.steps:
            return None
        getters: dict[int, Callable[[str], Curve | None]] = {0: history.curve}
        getters.update({rank: known.curves.get for rank, known in history.ranks.items()})
        own = {rank: own_secs(curve_of, self.limits.steps) for rank, curve_of in getters.items()}
        known = {rank: secs for rank, secs in own.items() if secs is not None}
        if len(known) < 2:
            return None
        return self._judge(known, middle_step(getters))

    def _judge(self, known: dict[int, float], step_secs: float) -> Sign | None:
        limits = self.limits
        slowest = max(known, key=lambda rank: known[rank])
        usual = float(np.median([secs for rank, secs in known.items() if rank != slowest]))
        behind = known[slowest] - usual
        if not (behind > limits.secs and behind > limits.share * step_secs):
            self._slow.clear()
            return None
        self._slow = {slowest: self._slow.get(slowest, 0) + 1}
        return (
            self._sign(slowest, known[slowest], usual, step_secs)
            if self._slow[slowest] >= limits.times
            else None
        )

    def _sign(self, rank: int, secs: float, usual: float, step_secs: float) -> Sign:
        share = (secs - usual) / step_secs
        return Sign(
            Severity.WARNING,
            f"Process {rank} (rank {rank}) takes {span(secs)} a step for its data, forward pass and "
            f"optimizer, the others {span(usual)}: {percent(share)} of a step longer "
            f"({percent(self.limits.share)} is too much), and all others wait for it.",
            "Look at what is different there: the machine or GPU, other programs on it, a slower disk, or "
            "longer batches. The Resources page compares the processes.",
            {
                "share of the step time": Evidence(share, self.limits.share),
                "seconds of this process": Evidence(secs),
                "seconds of the others": Evidence(usual),
            },
            where=(f"rank {rank}",),
            sureness=0.8,
        )


def own_secs(curve_of: Callable[[str], Curve | None], steps: float) -> float | None:
    """What a process needs for a step by itself, at the median; None when too little is known."""
    total = None
    for name in OWN:
        curve = curve_of(name)
        if curve is not None and curve.count >= steps:
            total = (total or 0.0) + float(np.median(curve.tail(STEPS_COMPARED)))
    return total


def middle_step(getters: dict[int, Callable[[str], Curve | None]]) -> float:
    steps = [
        curve.tail(STEPS_COMPARED) for get in getters.values() if (curve := get("time/step")) is not None
    ]
    return float(np.median(np.concatenate(steps))) if steps else 0.0
