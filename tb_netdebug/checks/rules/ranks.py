"""Rules over processes that train together: a slow one that the others wait for, and duplicated work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.curve import Curve
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.rules.weights_replicas import is_sharded
from tb_netdebug.checks.wording.phrases import agree, percent, span
from tb_netdebug.core.records.facts import DataParallelFact
from tb_netdebug.core.records.scalar_names import BATCH_ID, TIME_DATA, TIME_FORWARD, TIME_OPTIMIZER, TIME_STEP

Batches = dict[int, float]  # fingerprints by step
MOST_NAMED = 8

STEPS_COMPARED = 64
# The parts of a step that a process does by itself. In the backward pass it also waits for the others; in the
# forward pass, too, if the weights are sharded.
OWN = (TIME_DATA, TIME_FORWARD, TIME_OPTIMIZER)
OWN_OF_PARTS = (TIME_DATA, TIME_OPTIMIZER)


@dataclass(frozen=True, slots=True)
class StragglerLimits:
    steps: float = 32
    share: float = 0.2  # of the step time of all: how much longer than the median process
    secs: float = 0.005  # whatever the share: this is noise of a machine
    times: float = 2  # times in a row, so that it is not a hiccup


class StragglerRank(Rule):
    """One of several processes is always slower than the others."""

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
        names = OWN_OF_PARTS if is_sharded(history) else OWN
        own = {rank: own_secs(curve_of, names, self.limits.steps) for rank, curve_of in getters.items()}
        known = {rank: secs for rank, secs in own.items() if secs is not None}
        if len(known) < 2:
            return None
        return self._judge(known, middle_step(getters), names is OWN_OF_PARTS)

    def _judge(self, known: dict[int, float], step_secs: float, is_in_parts: bool) -> Sign | None:
        limits = self.limits
        slowest = max(known, key=lambda rank: known[rank])
        usual = float(np.median([secs for rank, secs in known.items() if rank != slowest]))
        behind = known[slowest] - usual
        if not (behind > limits.secs and behind > limits.share * step_secs):
            self._slow.clear()
            return None
        self._slow = {slowest: self._slow.get(slowest, 0) + 1}
        return (
            self._sign(slowest, known[slowest], usual, step_secs, is_in_parts)
            if self._slow[slowest] >= limits.times
            else None
        )

    def _sign(self, rank: int, secs: float, usual: float, step_secs: float, is_in_parts: bool) -> Sign:
        share = (secs - usual) / step_secs
        work = "data, optimizer" if is_in_parts else "data, forward pass, optimizer"
        return Sign(
            Severity.WARNING,
            f"Process {rank} (rank {rank}) takes {span(secs)} a step for its own work ({work}), the others "
            f"{span(usual)}: {percent(share)} of a step longer ({percent(self.limits.share)} is too much), "
            "and all others wait for it.",
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


def own_secs(curve_of: Callable[[str], Curve | None], names: Sequence[str], steps: float) -> float | None:
    """Return the median time that a process needs for a step by itself; None if too little is known."""
    total = None
    for name in names:
        curve = curve_of(name)
        if curve is not None and curve.count >= steps:
            total = (total or 0.0) + float(np.median(curve.tail(STEPS_COMPARED)))
    return total


def middle_step(getters: dict[int, Callable[[str], Curve | None]]) -> float:
    steps = [curve.tail(STEPS_COMPARED) for get in getters.values() if (curve := get(TIME_STEP)) is not None]
    return float(np.median(np.concatenate(steps))) if steps else 0.0


@dataclass(frozen=True, slots=True)
class DuplicateLimits:
    steps: float = 8  # steps for which the batches of two processes are known
    share: float = 0.9  # of them equal; short last batches and a sample that repeats now and then stay below


class DuplicateBatches(Rule):
    """Several processes train on the same batches, though each should have its own part of the data."""

    slug = "duplicate-batches-across-ranks"
    when = When.STEPS
    needs = ("ranks", "inputs")
    limits = DuplicateLimits()

    def update(self, history: History) -> Sign | None:
        shared = history.fact(DataParallelFact)
        if not history.ranks or shared is None or shared.batches < shared.processes:
            return None
        curves = {0: history.curve(BATCH_ID)}
        curves.update({rank: known.curves.get(BATCH_ID) for rank, known in history.ranks.items()})
        seen = {
            rank: dict(zip(curve.steps, curve.values, strict=True))
            for rank, curve in sorted(curves.items())
            if curve is not None
        }
        found = [pair for pair in candidates(seen) if self._are_same(seen[pair[0]], seen[pair[1]])]
        return self._sign(found, seen) if found else None

    def _are_same(self, one: Batches, other: Batches) -> bool:
        both = [step for step in one if step in other]
        same = [step for step in both if one[step] == other[step]]
        is_one_batch = len({one[step] for step in same}) < 2  # repeated on purpose: another check's matter
        return (
            len(both) >= self.limits.steps and len(same) >= self.limits.share * len(both) and not is_one_batch
        )

    def _sign(self, found: list[tuple[int, int]], seen: dict[int, Batches]) -> Sign:
        first = found[0][0]
        others = [rank for one, rank in found if one == first]
        both = [step for step in seen[first] if step in seen[others[0]]]
        same = sum(seen[first][step] == seen[others[0]][step] for step in both)
        more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
        word, do = (agree(len(others), *words) for words in (("Process", "Processes"), ("trains", "train")))
        return Sign(
            Severity.WARNING,
            f"{word} {', '.join(map(str, others[:MOST_NAMED]))}{more} {do} on the same batches as process "
            f"{first}: {same} of {len(both)} that were compared are equal ({percent(self.limits.share)} of "
            "them are too many). The same work is done several times, and an epoch takes as long as on one "
            "process.",
            "Give each process a part of the data: DataLoader(data, sampler=DistributedSampler(data)), and "
            "sampler.set_epoch(epoch) at the beginning of each epoch. Data that are drawn at random need "
            "another seed on each process: torch.manual_seed(seed + rank).",
            {
                "equal batches": Evidence(float(same)),
                "share of those compared": Evidence(same / len(both), self.limits.share),
            },
            where=tuple(f"rank {rank}" for _, rank in found),
            since=min(both),
            sureness=0.9,
        )


def candidates(seen: dict[int, Batches]) -> list[tuple[int, int]]:
    """Return pairs of a process and the first one that had the same batch.

    The batches are compared at the last two steps that all processes have reported.
    """
    # Processes report at different times: only steps that all have reached are compared.
    steps = [max(batches) for batches in seen.values() if batches]
    last = min(steps, default=0)
    firsts: dict[tuple[int, float], int] = {}
    found = []
    for rank, batches in seen.items():
        for step in sorted(step for step in batches if step <= last)[-2:]:
            first = firsts.setdefault((step, batches[step]), rank)
            if first != rank:
                found.append((first, rank))
                break
    return found
