"""The modules of a network and the data flow between them, as seen in its first forward pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.envelope import check_version, compressed, decompressed, parsed
from tb_netdebug.core.records.errors import DamagedBlock, UnsupportedVersion, require

__all__ = [
    "GRAPH_VERSION",
    "DamagedBlock",
    "Edge",
    "Graph",
    "Node",
    "Parameter",
    "TensorType",
    "UnsupportedVersion",
    "decode_graph",
    "encode_graph",
]

GRAPH_VERSION = 1
# A parsed message takes far more memory than its bytes, so this also bounds what a hostile one can claim.
MOST_GRAPH_BYTES = 16 * 1024 * 1024
# A Python name may hold lone surrogates, which strict UTF-8 refuses.
_TEXT_ERRORS = "surrogatepass"


@dataclass(frozen=True, slots=True)
class TensorType:
    """The shape and element type of a tensor, such as `TensorType((32, 10), "float32")`."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One of a module's own parameters, under its name inside the module."""

    name: str
    tensor: TensorType
    trainable: bool = True


@dataclass(frozen=True, slots=True)
class Node:
    """A module. `parameters` counts its children's too; `own_parameters` lists only its own.

    `parent` is the name of another node, or None for a root. `order` is the position in the order of
    execution, or None when the module was never called.
    """

    name: str
    class_name: str
    parent: str | None = None
    parameters: int = 0
    trainable: int = 0
    own_parameters: tuple[Parameter, ...] = ()
    source_file: str = ""
    source_line: int = 0
    inputs: tuple[TensorType, ...] = ()
    outputs: tuple[TensorType, ...] = ()
    calls: int = 0
    order: int | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor that went from an output of one module to an input of another; both are names of nodes."""

    source: str
    target: str
    tensor: TensorType
    output: int = 0
    input: int = 0


@dataclass(frozen=True, slots=True)
class Graph:
    """The nodes, with unique names and parents before their children, and the edges between them."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()


def encode_graph(graph: Graph, *, rank: int = 0) -> bytes:
    """Encode a graph.

    Raises ValueError when two nodes share a name, a parent does not stand before its children, or an edge
    names an unknown node.
    """
    places = {node.name: place for place, node in enumerate(graph.nodes)}
    if len(places) < len(graph.nodes):
        raise ValueError("two nodes of a graph have the same name")
    try:
        nodes = [_put_node(node, places) for node in graph.nodes]
        _check_parents(nodes)
        edges = [_put_edge(edge, places) for edge in graph.edges]
    except KeyError as error:
        raise ValueError(f"the graph has no node named {error}") from None
    content = compressed(pb.Graph(nodes=nodes, edges=edges), limit=MOST_GRAPH_BYTES)
    return pb.GraphBlock(version=GRAPH_VERSION, rank=rank, graph=content).SerializeToString()


def decode_graph(payload: bytes) -> Graph:
    """Decode a graph; raise UnsupportedVersion or DamagedBlock."""
    block = parsed(payload, pb.GraphBlock())
    check_version("graph", block.version, known=GRAPH_VERSION)
    content = decompressed(block.graph, pb.Graph(), limit=MOST_GRAPH_BYTES)
    try:
        names = [_text(node.name) for node in content.nodes]
        require(len(set(names)) == len(names), "two nodes of a graph have the same name")
        nodes = tuple(_get_node(node, names, at) for at, node in enumerate(content.nodes))
        edges = tuple(_get_edge(edge, names) for edge in content.edges)
    except UnicodeDecodeError:
        raise DamagedBlock("a name in the graph is not text") from None
    return Graph(nodes, edges)


def _check_parents(nodes: Sequence[pb.GraphNode]) -> None:
    for place, node in enumerate(nodes):
        # `parent` is stored one higher: equal to `place` it names the node right before this one.
        if node.parent > place:
            raise ValueError(f"the node {_text(node.name)!r} does not stand after its parent")


def _put_node(node: Node, places: dict[str, int]) -> pb.GraphNode:
    return pb.GraphNode(
        name=_bytes(node.name),
        class_name=_bytes(node.class_name),
        # Parent and order are stored one higher, because 0 means that there is none.
        parent=0 if node.parent is None else places[node.parent] + 1,
        parameters=node.parameters,
        trainable=node.trainable,
        own_parameters=[_put_parameter(parameter) for parameter in node.own_parameters],
        source_file=_bytes(node.source_file),
        source_line=node.source_line,
        inputs=_put_tensors(node.inputs),
        outputs=_put_tensors(node.outputs),
        calls=node.calls,
        order=0 if node.order is None else node.order + 1,
    )


def _get_node(node: pb.GraphNode, names: Sequence[str], place: int) -> Node:
    require(node.parent <= place, "a node of a graph does not stand after its parent")
    return Node(
        name=_text(node.name),
        class_name=_text(node.class_name),
        parent=names[node.parent - 1] if node.parent else None,
        parameters=node.parameters,
        trainable=node.trainable,
        own_parameters=tuple(_get_parameter(parameter) for parameter in node.own_parameters),
        source_file=_text(node.source_file),
        source_line=node.source_line,
        inputs=_get_tensors(node.inputs),
        outputs=_get_tensors(node.outputs),
        calls=node.calls,
        order=node.order - 1 if node.order else None,
    )


def _put_edge(edge: Edge, places: dict[str, int]) -> pb.GraphEdge:
    return pb.GraphEdge(
        source=places[edge.source],
        target=places[edge.target],
        output=edge.output,
        input=edge.input,
        tensor=_put_tensor(edge.tensor),
    )


def _get_edge(edge: pb.GraphEdge, names: Sequence[str]) -> Edge:
    require(max(edge.source, edge.target) < len(names), "an edge ends at a node that does not exist")
    tensor = _get_tensor(edge.tensor)
    return Edge(names[edge.source], names[edge.target], tensor, edge.output, edge.input)


def _put_parameter(parameter: Parameter) -> pb.GraphParameter:
    tensor = _put_tensor(parameter.tensor)
    return pb.GraphParameter(name=_bytes(parameter.name), tensor=tensor, trainable=parameter.trainable)


def _get_parameter(parameter: pb.GraphParameter) -> Parameter:
    return Parameter(_text(parameter.name), _get_tensor(parameter.tensor), parameter.trainable)


def _put_tensors(tensors: Iterable[TensorType]) -> list[pb.GraphTensor]:
    return [_put_tensor(tensor) for tensor in tensors]


def _get_tensors(tensors: Iterable[pb.GraphTensor]) -> tuple[TensorType, ...]:
    return tuple(_get_tensor(tensor) for tensor in tensors)


def _put_tensor(tensor: TensorType) -> pb.GraphTensor:
    return pb.GraphTensor(shape=tensor.shape, dtype=_bytes(tensor.dtype))


def _get_tensor(tensor: pb.GraphTensor) -> TensorType:
    return TensorType(tuple(tensor.shape), _text(tensor.dtype))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", _TEXT_ERRORS)


def _text(data: bytes) -> str:
    return data.decode("utf-8", _TEXT_ERRORS)
