"""What the rules know of each parameter, as columns beside its numbers: shape, role, place in the network."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.checks.history import History
from tb_netdebug.checks.layers import UNKNOWN, LayerTable
from tb_netdebug.checks.tensors import Doubles, Flags, Numbers
from tb_netdebug.core.records.graph import Node
from tb_netdebug.core.records.graph import Parameter as Shape
from tb_netdebug.core.records.step import Kind

Integers = NDArray[np.int64]

KINDS = (Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE)
# Tables whose rows a batch touches only in part; they are not weight matrices.
TABLES = ("Embedding", "EmbeddingBag")
NO_MATRIX = ("norm", "bn", "embed")
# The name of Keras weights, whose units lie along the last axis, not along the first.
KERNEL = "kernel"


class ParameterTable:
    """The parameters of a run as columns; `names[i]` stands at place i of each.

    `parameters_of` keeps the table up to date.

    A matrix has at least two dimensions larger than one, and is not a table of embeddings; `last` marks the
    matrices that their model runs last. `fan_in` is how many values flow into a unit (NaN if not known),
    `fan_out` how many units of the next layer one of them flows into, `elements` how many values the
    parameter has.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.place: dict[str, int] = {}
        self.matrix: Flags = np.zeros(0, bool)
        self.last: Flags = np.zeros(0, bool)
        self.table: Flags = np.zeros(0, bool)
        self.trainable: Flags = np.zeros(0, bool)
        self.called: Flags = np.zeros(0, bool)
        self.fan_in: Doubles = np.zeros(0)
        self.fan_out: Doubles = np.zeros(0)
        self.elements: Doubles = np.zeros(0)
        self.dtype: list[str] = []
        self.chains: list[Integers] = []
        """Of each model the places of all its parameters in the order of execution."""
        self.layers: list[Integers] = []
        """Of each model those of its trainable matrices."""
        self._known: tuple[object, ...] = ()
        self._places: dict[Kind, Integers] = {}
        self._memo: dict[tuple[Kind, str], Doubles] = {}
        self._step = -1

    def follow(self, history: History) -> None:
        known = (history.layers, *(len(history.of_kind(kind).names) for kind in KINDS))
        if known != self._known:
            self._known = known
            self._describe(history)
        if history.step != self._step:
            self._step = history.step
            self._memo.clear()

    def column(self, history: History, kind: Kind, quantity: str) -> Doubles:
        """Return a quantity of this step; NaN where a tensor was not sampled.

        Callers must not change the array.
        """
        known = self._memo.get((kind, quantity))
        if known is None:
            known = self._memo[kind, quantity] = self._column(history.of_kind(kind).now, kind, quantity)
        return known

    def ratio(self, history: History) -> Doubles:
        """Return update relative to weight for all trainable matrices and tables.

        It is NaN for those that are zero or did not move at all.
        """
        known = self._memo.get((Kind.UPDATE, "ratio"))
        if known is None:
            update = self.column(history, Kind.UPDATE, "rms")
            weight = self.column(history, Kind.WEIGHT, "rms")
            counts = (self.matrix | self.table) & self.trainable & (update > 0) & (weight > 0)
            known = np.full(len(update), np.nan)
            known[counts] = update[counts] / weight[counts]
            self._memo[Kind.UPDATE, "ratio"] = known
        return known

    def first(self, history: History, kind: Kind, quantity: str) -> Doubles:
        """Return a quantity of the first sample of a kind."""
        return self._column(history.of_kind(kind).first, kind, quantity)

    def chosen(self, flags: Flags) -> tuple[str, ...]:
        return tuple(self.names[place] for place in np.flatnonzero(flags))

    def share(self, names: Iterable[str]) -> float:
        """Return the share of these parameters in all trainable values; 0 if it is not known."""
        places = [self.place[name] for name in names if name in self.place]
        counted = self.trainable.copy()
        counted[places] = True  # though they were frozen when the network was described
        total = float(np.nansum(self.elements[counted]))
        return float(np.nansum(self.elements[places])) / total if total else 0.0

    def _column(self, look: Numbers | None, kind: Kind, quantity: str) -> Doubles:
        places = self._places[kind]
        column = np.full(len(places), np.nan)
        if look is not None:
            values: Doubles = getattr(look, quantity)
            there = (places >= 0) & (places < len(values))
            column[there] = values[places[there]]
        return column

    def _describe(self, history: History) -> None:
        shapes = {name: (node, shape) for name, node, shape in declared(history.layers)}
        sampled = (name for kind in KINDS for name in history.of_kind(kind).names)
        listed = [*self.names, *shapes, *sampled]  # a place once given stays: rules count by places
        self.names = list(dict.fromkeys(listed))
        self.place = {name: place for place, name in enumerate(self.names)}
        found = [shapes.get(name) for name in self.names]
        nodes = [each[0] if each else None for each in found]
        sizes = [each[1].tensor.shape if each else None for each in found]
        self.dtype = [each[1].tensor.dtype if each else "" for each in found]
        self.trainable = flags(each is None or each[1].trainable for each in found)
        self.called = flags(node is None or node.order is not None for node in nodes)
        self.table = flags(node is not None and node.class_name in TABLES for node in nodes)
        fans = [fans_of(name, node, size) for name, node, size in zip(self.names, nodes, sizes, strict=True)]
        self.fan_in, self.fan_out = np.array(fans, float).reshape(-1, 2).T
        self.elements = np.array([math.nan if size is None else math.prod(size) for size in sizes], float)
        is_matrix = [is_matrix_of(name, size) for name, size in zip(self.names, sizes, strict=True)]
        self.matrix = np.array(is_matrix, bool) & ~self.table
        self._places = {kind: self._places_in(history, kind) for kind in KINDS}
        self._order(nodes)
        self._memo.clear()

    def _places_in(self, history: History, kind: Kind) -> Integers:
        place = history.of_kind(kind).place
        return np.array([place.get(name, -1) for name in self.names], np.int64)

    def _order(self, nodes: Sequence[Node | None]) -> None:
        order = [UNKNOWN if node is None or node.order is None else node.order for node in nodes]
        models: dict[str, list[int]] = {}
        for place in sorted(range(len(self.names)), key=lambda place: (order[place], place)):
            models.setdefault(model_of(self.names[place]), []).append(place)
        self.chains = [np.array(places, np.int64) for places in models.values()]
        self.layers = [chain[self.matrix[chain] & self.trainable[chain]] for chain in self.chains]
        self.last = np.zeros(len(self.names), bool)
        for chain in self.chains:
            matrices = chain[self.matrix[chain] & self.called[chain]]
            if len(matrices):
                self.last[matrices[-1]] = True


# Shared by the rules of a run, and gone with its history.
_ALL: WeakKeyDictionary[History, ParameterTable] = WeakKeyDictionary()


def parameters_of(history: History) -> ParameterTable:
    """Return the table of this run, up to date; its rules share it, and it is updated once a step."""
    known = _ALL.get(history)
    if known is None:
        known = _ALL[history] = ParameterTable()
    known.follow(history)
    return known


def declared(layers: LayerTable) -> Iterator[tuple[str, Node, Shape]]:
    """Yield all parameters of the graph by the names of their tensors.

    Those of a root are named without it, unless it is one of several models.
    """
    several = sum(node.parent is None for node in layers.nodes.values()) > 1
    for node in layers.nodes.values():
        for shape in node.own_parameters:
            if node.parent is None:
                yield (f"{node.name}/{shape.name}" if several else shape.name), node, shape
            else:
                yield f"{node.name}.{shape.name}", node, shape


def median(values: Doubles) -> float:
    """Return the median of the values that are there; NaN if there is none."""
    there = values[~np.isnan(values)]
    return float(np.median(there)) if len(there) else math.nan


def flags(values: Iterable[bool]) -> Flags:
    return np.array(list(values), bool)


def model_of(name: str) -> str:
    """Return the name that a model was given beside others; empty if there is only one."""
    return name.partition("/")[0] if "/" in name else ""


def is_matrix_of(name: str, size: Sequence[int] | None) -> bool:
    own = name.rpartition(".")[2]
    if size is not None and KERNEL in own:
        return sum(each > 1 for each in size) >= 2
    if size is not None:
        return len(size) >= 2 and size[0] > 1 and math.prod(size[1:]) > 1
    is_weight = "weight" in own or KERNEL in own
    return is_weight and not any(word in name.lower() for word in NO_MATRIX)


def fans_of(name: str, node: Node | None, size: Sequence[int] | None) -> tuple[float, float]:
    """Return how many values flow into a unit, and how many units one of them flows into."""
    if size is None or len(size) < 2:
        return math.nan, math.nan
    if KERNEL in name.rpartition(".")[2]:
        field = math.prod(size[:-2])
        return float(size[-2] * field), float(size[-1] * field)
    field = math.prod(size[2:])
    first, second = float(size[0] * field), float(size[1] * field)
    is_transposed = node is not None and node.class_name.startswith("ConvTranspose")
    return (first, second) if is_transposed else (second, first)
