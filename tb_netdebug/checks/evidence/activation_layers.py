"""The layers behind activations: which are rectifiers, which saturate, which are hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.checks.history import History
from tb_netdebug.checks.layers import LayerTable
from tb_netdebug.core.records.graph import Node
from tb_netdebug.core.records.step import Units

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

# Activations that are exactly 0 on one side; leaky ones and those without an edge, such as GELU, are not.
RECTIFIER = re.compile(r"(?<!leaky)relu(6|squared|2)?$|^(squaredrelu|relusquared|threshold|hardswish)$", re.I)
NO_RECTIFIER = frozenset({"LeakyReLU", "PReLU", "RReLU"})
# Activations with two flat ends, and the values at those ends.
EDGES = {"Tanh": (-1.0, 1.0), "Sigmoid": (0.0, 1.0), "Hardtanh": (-1.0, 1.0), "Hardsigmoid": (0.0, 1.0)}
MAPS = re.compile(r"(Linear|Conv\d?d?|ConvTranspose\d?d?|Bilinear)", re.I)


@dataclass(slots=True)
class ActivationLayers:
    """A column for each property of the layers, with the places of `history.activations`.

    `order` is that of execution. `rectifies` and `squashes` say what the layer does, `is_hidden` that a layer
    with parameters runs after it, `maps` that it is a linear map such as Linear or Conv2d, `is_output` that
    it is the last of its model.
    """

    classes: list[str] = field(default_factory=list)
    order: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    rectifies: Flags = field(default_factory=lambda: np.zeros(0, bool))
    squashes: Flags = field(default_factory=lambda: np.zeros(0, bool))
    maps: Flags = field(default_factory=lambda: np.zeros(0, bool))
    is_hidden: Flags = field(default_factory=lambda: np.zeros(0, bool))
    is_output: Flags = field(default_factory=lambda: np.zeros(0, bool))
    roots: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, layers: LayerTable, names: list[str]) -> ActivationLayers:
        nodes = [layers.module(name) for name in names]
        roots = [_root(layers, node) for node in nodes]
        last_map: dict[str, int] = {}
        for node in layers.nodes.values():
            if node.order is not None and node.own_parameters:
                root = _root(layers, node)
                last_map[root] = max(last_map.get(root, -1), node.order)
        order = np.array(
            [-1 if node is None or node.order is None else node.order for node in nodes], np.int64
        )
        classes = [node.class_name if node else "" for node in nodes]
        last: dict[str, int] = {}
        for root, place in zip(roots, order, strict=True):
            last[root] = max(last.get(root, -1), int(place))
        own = [bool(node and node.own_parameters) for node in nodes]
        plain = [bool(node) and not has for node, has in zip(nodes, own, strict=True)]
        return cls(
            classes,
            order,
            np.array([is_rectifier(each) and bare for each, bare in zip(classes, plain, strict=True)], bool),
            np.array([each in EDGES for each in classes], bool),
            np.array([bool(MAPS.fullmatch(each)) for each in classes], bool),
            np.array([0 <= at < last_map.get(root, -1) for root, at in zip(roots, order, strict=True)], bool),
            np.array([at >= 0 and at == last[root] for root, at in zip(roots, order, strict=True)], bool),
            roots,
        )


def is_rectifier(class_name: str) -> bool:
    return class_name not in NO_RECTIFIER and bool(RECTIFIER.search(class_name))


def active_in(looks: Iterable[Units]) -> int:
    """Return how many units were active in at least one of the samples."""
    together = 0
    for look in looks:
        together |= int.from_bytes(look.active, "little")  # one bit per unit
    return together.bit_count()


def _root(layers: LayerTable, node: Node | None) -> str:
    seen = 0
    # Bounded, because a damaged graph may have a cycle.
    while node is not None and node.parent is not None and seen < 1000:
        node, seen = layers.nodes.get(node.parent), seen + 1
    return node.name if node else ""


# Shared by the rules of a run, and gone with its history.
_KNOWN: WeakKeyDictionary[History, tuple[LayerTable, int, ActivationLayers]] = WeakKeyDictionary()


def activation_layers(history: History) -> ActivationLayers:
    """Return the layers behind the run's activations; they are rebuilt only when there are more of them."""
    names = history.activations.names
    known = _KNOWN.get(history)
    if known is None or known[0] is not history.layers or known[1] != len(names):
        known = history.layers, len(names), ActivationLayers.of(history.layers, names)
        _KNOWN[history] = known
    return known[2]
