"""The graph comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from tb_netdebug.core.records import netdebug_pb2 as pb
from tb_netdebug.core.records.graph import (
    Edge,
    Graph,
    Node,
    TensorType,
    UnsupportedVersion,
    decode_graph,
    encode_graph,
)
from tests.support.graph_cases import SMALL_GRAPH


@pytest.mark.parametrize("graph", [Graph(), SMALL_GRAPH], ids=["empty", "small"])
def test_round_trip(graph: Graph) -> None:
    """Every field of nodes and edges is kept, names that are no proper UTF-8 too."""
    assert graph == decode_graph(encode_graph(graph))


def test_size() -> None:
    """A transformer of a thousand modules takes a few bytes for each."""
    shape = TensorType((8, 128, 768), "float32")
    names = [f"encoder.layer.{i // 10}.part_{i % 10}" for i in range(1000)]
    nodes = [
        Node("encoder", "Encoder"),
        *(Node(name, "Linear", "encoder", 9, 9, inputs=(shape,)) for name in names),
    ]
    edges = [Edge(a, b, shape) for a, b in pairwise(names)]
    assert len(encode_graph(Graph(tuple(nodes), tuple(edges)))) < 20 * len(nodes)


def test_a_newer_version_is_refused() -> None:
    """The message says what to do."""
    with pytest.raises(UnsupportedVersion, match=r"graph has format version 9.*upgrade tb_netdebug"):
        decode_graph(pb.GraphBlock(version=9).SerializeToString())


def test_mistakes() -> None:
    """A graph that does not hang together is the caller's mistake."""
    node = Node("a", "A")
    with pytest.raises(ValueError, match="same name"):
        encode_graph(Graph((node, node)))
    with pytest.raises(ValueError, match="no node named 'b'"):
        encode_graph(Graph((node,), (Edge("a", "b", TensorType((), "float32")),)))
    with pytest.raises(ValueError, match="after its parent"):
        encode_graph(Graph((replace(node, parent="b"), Node("b", "B"))))
