"""The only place that encodes JSON (by `core/records/json_text.py`) and the binary body of columns.

Python's JSON encoder holds the GIL until it is done, which stops every stream of the process. So long lists
are encoded piece by piece.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tb_netdebug.core.records.graph import Edge, Graph, Node, TensorType
from tb_netdebug.core.records.json_text import json_bytes

Array = NDArray[np.generic]

# Little-endian, as every machine that a browser runs on reads them.
TYPES = {"f64": "<f8", "f32": "<f4", "i32": "<i4", "u8": "u1"}
SEPARATOR = "\0"
# A typed array in JavaScript must begin at a multiple of its item size, which is at most 8.
_ALIGNMENT = 8
# Small pieces, so that none keeps Python's lock from the other threads for long.
_ITEMS_AT_ONCE = 256
_BYTES_AT_ONCE = 1 << 18


def json_chunks(value: object) -> Iterator[bytes]:
    """Yield the value as JSON, in pieces that each take a bounded time."""
    if isinstance(value, Mapping):
        yield from _object_chunks(value)
    elif isinstance(value, (list, tuple)):
        yield from _array_chunks(value)
    else:
        yield json_bytes(value)


def event(name: str, value: object, *, identity: str) -> bytes:
    """Return a server-sent event; JSON has no line breaks of its own."""
    data = b"".join(json_chunks(value))
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (identity.encode(), name.encode(), data)


def graph_json(graph: Graph) -> dict[str, object]:
    return {"nodes": [_node(node) for node in graph.nodes], "edges": [_edge(edge) for edge in graph.edges]}


@dataclass(slots=True)
class Answer:
    """One answer of the `columns` route: the part of the header, and the arrays."""

    head: dict[str, object]
    columns: dict[str, Array] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(column.nbytes for column in self.columns.values())


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a `columns` reply: `u32 header length | header | arrays`, each array aligned to 8 bytes.

    The header is JSON, padded with spaces.
    """

    header: bytes
    arrays: list[NDArray[np.uint8]]

    @property
    def size(self) -> int:
        return len(self.header) + sum(array.size for array in self.arrays)

    def chunks(self) -> Iterator[bytes]:
        pending = [self.header]
        waiting = len(self.header)
        for array in self.arrays:
            for start in range(0, array.size, _BYTES_AT_ONCE):
                piece = array[start : start + _BYTES_AT_ONCE].tobytes()
                pending.append(piece)
                waiting += len(piece)
                if waiting >= _BYTES_AT_ONCE:  # join small arrays into few writes
                    yield b"".join(pending)
                    pending, waiting = [], 0
        if pending:
            yield b"".join(pending)


def columns_body(answers: Iterable[Answer]) -> Body:
    heads: list[dict[str, object]] = []
    arrays: list[NDArray[np.uint8]] = []
    offset = 0
    for answer in answers:
        places: dict[str, list[object]] = {}
        for path, values in answer.columns.items():
            kind = _type(values)
            data = np.ascontiguousarray(values, TYPES[kind])
            shape = [list(values.shape)] if values.ndim > 1 else []
            places[path] = [kind, offset, data.size, *shape]
            arrays += _aligned(data)
            offset += -(-data.nbytes // _ALIGNMENT) * _ALIGNMENT
        heads.append({**answer.head, "columns": places} if "error" not in answer.head else answer.head)
    return Body(_header(b"".join(json_chunks({"answers": heads}))), arrays)


def _header(text: bytes) -> bytes:
    text += b" " * (-(4 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(4, "little") + text


def _type(values: Array) -> str:
    kind, size = values.dtype.kind, values.dtype.itemsize
    if kind == "f":
        return "f32" if size <= 4 else "f64"
    if size == 1 and kind in "ub":
        return "u8"
    # Wider integers become doubles, which is what a JavaScript number is anyway.
    return "i32" if kind == "i" and size <= 4 else "f64"


def _aligned(data: Array) -> list[NDArray[np.uint8]]:
    padding = -data.nbytes % _ALIGNMENT
    found = [data.reshape(-1).view(np.uint8)] if data.size else []
    return [*found, np.zeros(padding, np.uint8)] if padding else found


def _object_chunks(value: Mapping[Any, object]) -> Iterator[bytes]:
    opening = b"{"
    for key, inner in value.items():
        yield opening + json.dumps(str(key)).encode() + b":"
        yield from json_chunks(inner)
        opening = b","
    yield b"{}" if opening == b"{" else b"}"


def _array_chunks(value: Sequence[object]) -> Iterator[bytes]:
    if not value:
        yield b"[]"
        return
    opening = b"["
    for start in range(0, len(value), _ITEMS_AT_ONCE):
        piece = value[start : start + _ITEMS_AT_ONCE]
        if len(value) <= _ITEMS_AT_ONCE and isinstance(piece[0], Mapping):  # few items, perhaps big ones
            for inner in piece:
                yield opening
                yield from json_chunks(inner)
                opening = b","
        else:
            yield opening + json_bytes(piece)[1:-1]
            opening = b","
    yield b"]"


def _node(node: Node) -> dict[str, object]:
    return {
        "name": node.name,
        "class_name": node.class_name,
        "parent": node.parent,
        "parameters": node.parameters,
        "trainable": node.trainable,
        "own_parameters": [
            {"name": one.name, **_tensor(one.tensor), "trainable": one.trainable}
            for one in node.own_parameters
        ],
        "source_file": node.source_file,
        "source_line": node.source_line,
        "inputs": [_tensor(tensor) for tensor in node.inputs],
        "outputs": [_tensor(tensor) for tensor in node.outputs],
        "calls": node.calls,
        "order": node.order,
    }


def _edge(edge: Edge) -> dict[str, object]:
    return {
        "source": edge.source,
        "target": edge.target,
        "output": edge.output,
        "input": edge.input,
        **_tensor(edge.tensor),
    }


def _tensor(tensor: TensorType) -> dict[str, object]:
    return {"shape": list(tensor.shape), "dtype": tensor.dtype}
