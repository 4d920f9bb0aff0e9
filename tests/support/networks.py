"""Networks and their parameters made up for the tests of the checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records.graph import Graph, Node, Parameter, TensorType
from tb_netdebug.core.records.step import Kind, Sample
from tests.support.stories import sample

Floats = NDArray[np.float32]
Shapes = Mapping[str, tuple[int, ...]]


def network(
    *layers: tuple[str, str, Shapes],
    dtype: str = "float32",
    frozen: Iterable[str] = (),
    idle: Iterable[str] = (),
) -> Graph:
    """Layers in the order of execution: name, class, and the shapes of their own parameters.

    `frozen` are names of parameters that are not trainable, `idle` those of layers that were never called.
    """
    still, skipped = set(frozen), set(idle)
    nodes = [Node("Net", "Net", order=0)]
    for place, (name, kind, shapes) in enumerate(layers, 1):
        own = tuple(
            Parameter(key, TensorType(shape, dtype), f"{name}.{key}" not in still)
            for key, shape in shapes.items()
        )
        order = None if name in skipped else place
        outputs = (TensorType((4, 8), dtype),)
        nodes.append(Node(name, kind, parent="Net", own_parameters=own, outputs=outputs, order=order))
    return Graph(tuple(nodes))


def linears(depth: int, width: int = 8, *, dtype: str = "float32", frozen: Iterable[str] = ()) -> Graph:
    """So many linear layers with biases: 0, 1, 2 and so on."""
    shapes = {"weight": (width, width), "bias": (width,)}
    return network(*[(str(place), "Linear", shapes) for place in range(depth)], dtype=dtype, frozen=frozen)


def spread(shape: Sequence[int], rms: float, *, seed: int = 0) -> Floats:
    """Random values of this size."""
    values = np.random.default_rng(seed).standard_normal(shape)
    scaled: Floats = (values * (rms / np.sqrt(np.mean(values**2)))).astype(np.float32)
    return scaled


def samples(kind: Kind, sizes: Mapping[str, float], *, width: int = 8, seed: int = 0) -> list[Sample]:
    """A sample of random values of such a size for each name: a matrix, of a bias a row."""
    made = []
    for place, (name, size) in enumerate(sizes.items()):
        shape = (width,) if name.endswith("bias") else (width, width)
        made.append(sample(kind, name, spread(shape, size, seed=seed + place) if size else np.zeros(shape)))
    return made
