"""The rule for processes that train one network together, and should have the same weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tb_netdebug.checks.evidence.parameters import ParameterTable, parameters_of
from tb_netdebug.checks.finding import Evidence, Severity, Sign
from tb_netdebug.checks.history import History, Rank
from tb_netdebug.checks.rule import Rule, When
from tb_netdebug.checks.wording.phrases import percent

SHARDED = ("FullyShardedDataParallel", "FSDP")


@dataclass(frozen=True, slots=True)
class ReplicaLimits:
    difference: float = 1e-4  # relative to the size of a weight; replicas in sync do not differ at all
    looks: float = 2  # samples in which a process differed, at the same step as the first process
    share: float = 0.2  # of the matrices differ; a part that each process has for itself is smaller


class ReplicaDivergence(Rule):
    """The weights of one process are no longer those of another: they do not train together."""

    slug = "replica-divergence"
    when = When.SAMPLES
    needs = ("ranks", "weights")
    limits = ReplicaLimits()

    def __init__(self) -> None:
        self._judged: dict[int, int] = {}
        self._differed: dict[int, int] = {}
        self._since: dict[int, int] = {}

    def update(self, history: History) -> Sign | None:
        if not history.ranks or is_sharded(history):
            return None
        worst: tuple[float, int] = (0.0, 0)
        names: dict[str, None] = {}
        for number, rank in history.ranks.items():
            found = self._compare(history, number, rank)
            if found is not None and self._differed[number] >= self.limits.looks:
                worst = max(worst, (found[0], number))
                names.update(dict.fromkeys(found[1]))
        return self._sign(history, worst, tuple(names)) if names else None

    def _compare(self, history: History, number: int, rank: Rank) -> tuple[float, list[str]] | None:
        """Compare a rank's last sample with the first process at the same step, if that was sampled, too."""
        now = rank.weights.now
        steps = history.weights.steps
        if now is None or now.step not in steps or self._judged.get(number) == now.step:
            return None
        self._judged[number] = now.step
        known = parameters_of(history)
        row = steps.index(now.step) - len(steps)
        mean, rms = (history.weights.past(name)[row] for name in ("mean", "rms"))
        both = [
            (rank.weights.place[name], history.weights.place[name])
            for name in rank.weights.names
            if name in history.weights.place and is_whole(known, name, rank)
        ]
        if not both:
            return None
        here, there = np.array(both).T
        with np.errstate(all="ignore"):
            size = np.maximum(rms[there], now.rms[here])
            apart = (
                np.maximum(np.abs(mean[there] - now.mean[here]), np.abs(rms[there] - now.rms[here])) / size
            )
        bad = np.nan_to_num(apart) > self.limits.difference
        if bad.sum() < max(self.limits.share * len(both), 1):
            self._differed[number] = 0
            return None
        self._since.setdefault(number, now.step)
        self._differed[number] = self._differed.get(number, 0) + 1
        return float(np.nanmax(apart)), [history.weights.names[place] for place in there[bad]]

    def _sign(self, history: History, worst: tuple[float, int], names: tuple[str, ...]) -> Sign:
        apart, number = worst
        return Sign(
            Severity.ERROR,
            f"The weights of process {number} are not those of process 0: they differ by up to "
            f"{percent(apart)} of their size (more than {percent(self.limits.difference)} is too much). Each "
            "process trains a network of its own, on a part of the data.",
            "Wrap the model on every process: "
            "model = torch.nn.parallel.DistributedDataParallel(model), call the wrapped one, and give its "
            "parameters to the optimizer. Code that runs on one process only (if rank == 0) must not change "
            "weights or skip steps.",
            {"difference against the size of the weights": Evidence(apart, self.limits.difference)},
            names,
            since=min(self._since.values(), default=history.step),
            sureness=0.9,
        )


def is_sharded(history: History) -> bool:
    """Return whether each process has a part of every weight: then they differ by design."""
    if history.info.get("in_parts"):
        return True
    models = history.info.get("models")
    classes = models.values() if isinstance(models, dict) else ()
    return any(str(each).startswith(SHARDED) for each in classes)


def is_whole(known: ParameterTable, name: str, rank: Rank) -> bool:
    """Return whether the rank sampled the whole tensor and not a shard of it, as far as is known."""
    now, place = rank.weights.now, known.place.get(name)
    if now is None or place is None or np.isnan(known.elements[place]):
        return True
    return bool(now.count[rank.weights.place[name]] == known.elements[place])
