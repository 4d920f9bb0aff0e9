"""The input of the rules: the steps just recorded, and what is remembered of those before.

Everything is bounded: the steps of each scalar, the samples of each tensor, the number of facts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.checks.curve import Curve
from tb_netdebug.checks.layers import LayerTable
from tb_netdebug.checks.tensors import TensorTable
from tb_netdebug.core.records.fact_codec import decode_fact
from tb_netdebug.core.records.facts import NonfiniteFact, TypedFact
from tb_netdebug.core.records.step import Kind, StepRecord
from tb_netdebug.core.records.verdict import RunEvidence

# Bounds on memory: a recording, which may come from anywhere, can hold any number of names.
MOST_SCALARS = 4096
MOST_FACTS_KEPT = 256
MOST_RANKS = 4096

Integers = NDArray[np.int64]
F = TypeVar("F", bound=TypedFact)


class Rank:
    """Another process of the same run: its scalars, and the sums of its weights in its last sample."""

    def __init__(self) -> None:
        self.step = -1
        self.curves: dict[str, Curve] = {}
        self.weights = TensorTable()

    def take(self, record: StepRecord) -> None:
        self.step = record.step
        for name, value in record.scalars.items():
            curve = self.curves.get(name)
            if curve is None:
                if len(self.curves) >= MOST_SCALARS:
                    continue
                curve = self.curves[name] = Curve(name)
            curve.add(record.step, value)
        weights = [sample for sample in record.samples if sample.series.kind is Kind.WEIGHT]
        if weights:
            self.weights.take(record.step, weights)


class History:
    """The records so far, as the rules see them; `take` adds one and makes it the present one.

    `recent` holds the records since the rules were last asked, the present one last: at most 16 of them.
    `facts` are those of the present record; `known_facts` the latest of each id. A fact of a kind that this
    version does not know, or one that does not hold together, is none.
    """

    def __init__(self) -> None:
        self.layers = LayerTable()
        self.info: dict[str, Any] = {}
        self.step = -1
        self.steps = 0
        self.scalars: dict[str, float] = {}
        self.recent: list[StepRecord] = []
        self._facts: dict[str, list[TypedFact]] = {}
        self._known_facts: dict[str, dict[int | str, TypedFact]] = {}
        self.ranks: dict[int, Rank] = {}
        self._curves: dict[str, Curve] = {}
        self._by_prefix: dict[str, list[Curve]] = {}
        self._tensors = {kind: TensorTable() for kind in Kind}
        self._sampled: set[Kind] = set()
        self._pairs: dict[tuple[Kind, Kind], tuple[int, int, Integers, Integers]] = {}

    def take(self, record: StepRecord) -> None:
        self.steps += record.step != self.step  # what is logged after the last step comes as that step again
        self.step = record.step
        self.scalars = record.scalars
        self.recent.append(record)
        curves, step = self._curves, record.step
        for name, value in record.scalars.items():
            curve = curves.get(name)
            if curve is None:
                if len(curves) >= MOST_SCALARS:
                    continue
                curve = curves[name] = Curve(name)
                self._by_prefix.clear()
            curve.add(step, value)
        if record.samples or self._sampled:
            self._take_samples(record)
        self._facts = {}
        for stored in record.facts:
            if (fact := decode_fact(stored)) is not None:
                self._note(fact)

    def take_rank(self, rank: int, record: StepRecord) -> None:
        """Take a record of another process.

        The only fact of it that counts is the origin of a NaN: averaged gradients carry a NaN into all
        processes.
        """
        self._facts = {}
        for stored in record.facts:
            fact = decode_fact(stored)
            if isinstance(fact, NonfiniteFact) and self._is_earlier_origin(fact, record.step):
                step = record.step if fact.step is None else fact.step
                self._note(replace(fact, step=step, rank=rank))
        known = self.ranks.get(rank)
        if known is None:
            if len(self.ranks) >= MOST_RANKS:
                return
            known = self.ranks[rank] = Rank()
        known.take(record)

    # ---- scalars

    def value(self, name: str) -> float | None:
        """Return a scalar of this step, or None if it was not measured."""
        return self.scalars.get(name)

    def curve(self, name: str) -> Curve | None:
        return self._curves.get(name)

    def curves(self, prefix: str = "") -> Sequence[Curve]:
        """Return all curves whose names begin with `prefix`, in the order in which they first came."""
        known = self._by_prefix.get(prefix)
        if known is None:  # rules ask for the same few again and again
            known = [curve for name, curve in self._curves.items() if name.startswith(prefix)]
            self._by_prefix[prefix] = known
        return known

    @property
    def evidence(self) -> RunEvidence:
        """The evidence that the run can be judged by."""
        return RunEvidence.of(self._curves.keys(), has_moved=self.updates.has_values)

    # ---- tensors

    @property
    def weights(self) -> TensorTable:
        return self._tensors[Kind.WEIGHT]

    @property
    def gradients(self) -> TensorTable:
        return self._tensors[Kind.GRADIENT]

    @property
    def updates(self) -> TensorTable:
        return self._tensors[Kind.UPDATE]

    @property
    def activations(self) -> TensorTable:
        return self._tensors[Kind.ACTIVATION]

    @property
    def tensors(self) -> TensorTable:
        """The tensors that probes and users hand in: `input/0`, `label/0`, `monitor.tensor(name, …)`."""
        return self._tensors[Kind.TENSOR]

    def of_kind(self, kind: Kind) -> TensorTable:
        return self._tensors[kind]

    def paired(self, first: Kind, second: Kind) -> tuple[Integers, Integers]:
        """Return the places of all names that both kinds have, in the order of the first."""
        one, other = self._tensors[first], self._tensors[second]
        known = self._pairs.get((first, second))
        # Names are only ever added, so the lengths show whether the known pairs are complete.
        if known is None or known[:2] != (len(one.names), len(other.names)):
            both = [(place, other.place[name]) for name, place in one.place.items() if name in other.place]
            places = np.array(both, np.int64).reshape(-1, 2).T
            known = self._pairs[first, second] = len(one.names), len(other.names), places[0], places[1]
        return known[2], known[3]

    # ---- facts

    def facts(self, kind: type[F]) -> Sequence[F]:
        """Return the facts of a kind in the present record."""
        return cast(Sequence[F], self._facts.get(kind.KIND, ()))

    @property
    def has_facts(self) -> bool:
        """Whether the present record has facts of any kind."""
        return bool(self._facts)

    def known_facts(self, kind: type[F]) -> Mapping[int | str, F]:
        """Return the latest facts of a kind by their ids; a kind without ids has at most one, at 0."""
        return cast(Mapping[int | str, F], self._known_facts.get(kind.KIND, {}))

    def fact(self, kind: type[F], key: int | str = 0) -> F | None:
        """Return the latest fact of a kind, and of an id if the kind has them."""
        return self.known_facts(kind).get(key)

    def _is_earlier_origin(self, fact: NonfiniteFact, step: int) -> bool:
        """Return whether another process reports an origin that may be the cause of the one known here."""
        known = self.fact(NonfiniteFact)
        if fact.what == "gradient":
            # An averaged gradient is NaN in every process: it says nothing about where the NaN came from.
            return False
        if known is None or known.what == "gradient":
            return True
        return known.step is not None and step < known.step

    def _note(self, fact: TypedFact) -> None:
        self._facts.setdefault(fact.KIND, []).append(fact)
        known = self._known_facts.setdefault(fact.KIND, {})
        key: int | str = getattr(fact, "id", 0)
        # A known id is always brought up to date; new ones are taken while there is room.
        if key in known or len(known) < MOST_FACTS_KEPT:
            known[key] = fact

    def _take_samples(self, record: StepRecord) -> None:
        by_kind: dict[Kind, list[Any]] = {}
        for sample in record.samples:
            by_kind.setdefault(sample.series.kind, []).append(sample)
        # Kinds that the record before had and this one has not.
        for kind in self._sampled - by_kind.keys():
            self._tensors[kind].rest()
        for kind, samples in by_kind.items():
            self._tensors[kind].take(record.step, samples)
        self._sampled = set(by_kind)
