"""Build the layer tree and the data flow between layers from the trace of a step."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy as np

from tb_netdebug.core.records.graph import Edge, Graph, Node, Parameter, TensorType, encode_graph
from tb_netdebug.frameworks.keras.layers import KerasLayer, Network, own_weights
from tb_netdebug.recording.guard import Guard

if TYPE_CHECKING:
    from tb_netdebug.frameworks.keras.tap import LayerCall, StepTap

# There are rarely more than a few operations between two layers; a longer way back is given up.
MOST_OPERATIONS = 500
MOST_OPERATIONS_IN_ALL = 200_000
# A model that was not called within this many steps is described without data flow.
PATIENCE_STEPS = 3


class GraphTold:
    """Describes the model once, as soon as a step has shown its calls."""

    def __init__(self, network: Network, guard: Guard) -> None:
        self._network = network
        self._guard = guard
        self._steps = 0
        self._encoded: bytes | None = None
        self._is_told = False

    def look(self, taps: Sequence[StepTap], size: float | None) -> None:
        """Encode the graph once a step has shown calls or PATIENCE_STEPS have passed; call it each step."""
        if self._is_told:
            return
        called = [tap for tap in taps if tap.calls]
        self._steps += 1
        if not called and self._steps <= PATIENCE_STEPS:
            return
        self._is_told = True
        try:
            self._network.refresh()
            calls = called[0].calls if called else []
            self._encoded = encoded_graph(self._network, calls, None if size is None else int(size))
        except Exception as error:
            self._guard.fault("describing the model", error)

    def take(self) -> bytes | None:
        """Return the encoded graph, and forget it."""
        encoded, self._encoded = self._encoded, None
        return encoded


def encoded_graph(network: Network, calls: Sequence[LayerCall], size: int | None) -> bytes:
    """Return the encoded graph; `size` fills in the batch dimension, which a traced shape leaves open."""
    calls = sorted(calls, key=lambda call: call.order)
    by_layer: dict[int, list[LayerCall]] = {}
    for call in calls:
        by_layer.setdefault(id(call.layer), []).append(call)
    nodes = [node_of(layer, by_layer.get(id(layer), []), size) for layer in network.layers.values()]
    return encode_graph(Graph(tuple(nodes), tuple(edges_of(calls, size))))


def node_of(found: KerasLayer, calls: list[LayerCall], size: int | None) -> Node:
    layer = found.layer
    file, line = source_of(layer)
    own = own_weights(layer)
    below = weights_below(layer)
    return Node(
        name=found.name,
        class_name=type(layer).__name__,
        parent=None if found.parent is None else found.parent.name,
        parameters=sum(count_of(each) for each in below),
        trainable=sum(count_of(each) for each in below if each.trainable),
        own_parameters=tuple(
            Parameter(name, TensorType(tuple(each.shape), str(each.dtype)), bool(each.trainable))
            for name, each in own
        ),
        source_file=file,
        source_line=line,
        inputs=tuple(type_of(each, size) for _, each in calls[0].inputs) if calls else (),
        outputs=tuple(type_of(each, size) for _, each in calls[0].outputs) if calls else (),
        calls=len(calls),
        order=calls[0].order if calls else None,
    )


def edges_of(calls: list[LayerCall], size: int | None) -> Iterator[Edge]:
    """Yield the edges between layers that compute something themselves, not between containers."""
    flow = LayerFlow()
    seen: set[Edge] = set()
    for call in calls:
        if not is_end(call.layer):
            continue
        for place, (_, tensor) in enumerate(call.inputs):
            for source, output in flow.sources(tensor):
                edge = Edge(source, call.layer.name, type_of(tensor, size), output, place)
                if edge not in seen:
                    seen.add(edge)
                    yield edge
        for place, (_, tensor) in enumerate(call.outputs):
            flow.produced(tensor, call.layer.name, place)


class LayerFlow:
    """Maps a tensor to the layer it comes from, possibly through operations outside of layers."""

    def __init__(self) -> None:
        self._by_tensor: dict[int, tuple[str, int]] = {}
        self._followed = 0

    def produced(self, tensor: Any, name: str, output: int) -> None:
        self._by_tensor[id(tensor)] = name, output

    def sources(self, tensor: Any) -> list[tuple[str, int]]:
        found: dict[tuple[str, int], None] = {}
        waiting, seen = deque([tensor]), {id(tensor)}
        while waiting and len(seen) < MOST_OPERATIONS and self._followed < MOST_OPERATIONS_IN_ALL:
            each = waiting.popleft()
            self._followed += 1
            source = self._by_tensor.get(id(each))
            if source is not None:
                found[source] = None
            elif hasattr(each, "graph"):
                before = [one for one in each.op.inputs if id(one) not in seen]
                seen.update(map(id, before))
                waiting.extend(before)
        return list(found)


def is_end(found: KerasLayer) -> bool:
    return not getattr(found.layer, "_layers", None) or bool(own_weights(found.layer)) or found.is_watched


def type_of(tensor: Any, size: int | None) -> TensorType:
    sizes = [] if tensor.shape.rank is None else tensor.shape.as_list()
    unknown = [size or 0, *([0] * len(sizes))]
    shape = tuple(unknown[at] if each is None else each for at, each in enumerate(sizes))
    return TensorType(shape, tensor.dtype.name)


def weights_below(layer: Any) -> list[Any]:
    """Return the trainable weights of all sublayers, each once; no moving averages or counters."""
    found: dict[int, Any] = {}
    for each in layer._flatten_layers():
        found.update((id(variable), variable) for _, variable in own_weights(each))
    return list(found.values())


def count_of(variable: Any) -> int:
    return int(np.prod(variable.shape, dtype=np.int64))


def code_of(layer: Any) -> CodeType | None:
    """Return the code of the layer's `call`; None if that is not a Python function."""
    return getattr(inspect.unwrap(type(layer).call), "__code__", None)


def source_of(layer: Any) -> tuple[str, int]:
    """Return where the layer's `call` is written: the path below the working folder, else its last parts."""
    code = code_of(layer)
    if code is None:
        return "", 0
    path = Path(code.co_filename)
    try:
        return str(path.relative_to(Path.cwd())), code.co_firstlineno
    except (ValueError, OSError):
        return "/".join(path.parts[-3:]), code.co_firstlineno
