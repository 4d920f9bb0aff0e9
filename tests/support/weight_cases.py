"""For the tests of checks of weights: records of small trainings, made up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tb_netdebug.checks.finding import Finding
from tb_netdebug.checks.rules.weights import RULES
from tb_netdebug.core.records.graph import Graph
from tb_netdebug.core.records.step import Kind, Sample, StepRecord
from tests.support.networks import linears, samples
from tests.support.stories import judged, record

Number = Callable[[int], float]
LAYERS = tuple(f"{place}.weight" for place in range(4))


def found(records: Iterable[StepRecord], layers: Graph | None = None, **checks: Any) -> dict[str, Finding]:
    return judged(RULES, records, layers=layers or linears(4), checks=checks)


def flat(step: int) -> float:
    return 2.3


def falling(step: int) -> float:
    return 2.3 * 0.97**step


def looks(
    step: int,
    *,
    weight: float = 0.2,
    update: float | Mapping[str, float] = 2e-4,
    gradient: float | Mapping[str, float] = 0.01,
) -> list[Sample]:
    """Sizes of weights, gradients and updates; one number is that of all layers."""
    of = {
        Kind.WEIGHT: weight,
        Kind.GRADIENT: gradient,
        Kind.UPDATE: update,
    }
    return [
        each
        for kind, sizes in of.items()
        for each in samples(
            kind, sizes if isinstance(sizes, Mapping) else dict.fromkeys(LAYERS, sizes), seed=step
        )
    ]


def training(
    *, steps: int = 48, loss: Number = flat, rate: Number = lambda step: 0.1, **sizes: Any
) -> list[StepRecord]:
    """Sampled as a short training is: the first steps, then fewer."""
    records = []
    for step in range(steps):
        now = {name: size(step) if callable(size) else size for name, size in sizes.items()}
        seen = looks(step, **now) if step < 8 or step % 4 == 0 else []
        records.append(record(step, {"loss": loss(step), "lr/0": rate(step)}, seen))
    return records
