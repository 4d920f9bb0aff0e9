"""Trainings made up number by number, for the tests of the checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tb_netdebug.checks.engine import Engine
from tb_netdebug.checks.finding import Finding
from tb_netdebug.checks.rule import Rule
from tb_netdebug.checks.rules import ALL
from tb_netdebug.core.records.graph import Graph, Node
from tb_netdebug.core.records.step import Fact, Kind, Sample, Series, StepRecord, Units
from tb_netdebug.core.stats.twin import summarize
from tests.support.reading import complaints

SLUGS = frozenset(rule.slug for rule in ALL)


def sample(kind: Kind, name: str, values: ArrayLike, *, active: Sequence[bool] | None = None) -> Sample:
    """What a look at these values records; `active` says of each unit whether it was."""
    array = np.ascontiguousarray(values, np.float32)
    units = None
    if active is not None:
        units = Units(len(active), np.packbits(active, bitorder="little").tobytes())
    return Sample(Series(kind, name), summarize([(array.ctypes.data, array.size, 0)], 1)[0], units)


def record(
    step: int,
    scalars: Mapping[str, float] | None = None,
    samples: Iterable[Sample] = (),
    facts: Iterable[tuple[str, dict[str, Any]]] = (),
) -> StepRecord:
    told = [Fact(kind, data) for kind, data in facts]
    return StepRecord(step, 1e9 + step / 10, dict(scalars or {}), list(samples), told)


def graph(*layers: tuple[str, str]) -> Graph:
    """Layers of a network in the order of execution: name and class."""
    root = Node("", "Net", order=0)
    nodes = [Node(name, kind, parent="", order=place) for place, (name, kind) in enumerate(layers, 1)]
    return Graph((root, *nodes))


def judged(
    rules: Iterable[type[Rule]],
    records: Iterable[StepRecord],
    *,
    layers: Graph | None = None,
    checks: Mapping[str, Any] | None = None,
) -> dict[str, Finding]:
    """What the rules find in a whole training, by slug; a rule that broke fails the test, and so does a
    finding of ours that does not read well."""
    engine = Engine(checks, rules=tuple(rules))
    engine.describe(graph=layers)
    engine.feed(records)
    engine.finish()
    assert engine.broken == {}
    ours = [found for found in engine.findings if found.rule in SLUGS]
    told = [each for found in ours for each in complaints(found.message, found.advice)]
    assert not told, told
    return {finding.rule: finding for finding in engine.findings}
