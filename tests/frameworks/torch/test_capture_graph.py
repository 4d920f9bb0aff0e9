"""The data flow of networks that are deep: followed as far as it stays readable and quick."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.run import read_run
from tb_netdebug.core.records.graph import Graph, decode_graph
from tb_netdebug.frameworks.torch.graph import MOST_OPERATIONS_IN_ALL


class Block(nn.Module):
    """Adds to a stream that goes through all blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, stream: torch.Tensor) -> torch.Tensor:
        inner: torch.Tensor = self.inner(stream)
        return stream + inner


def graph_of(logdir: Path, blocks: int) -> Graph:
    model = nn.Sequential(*[Block() for _ in range(blocks)])
    with nd.watch(model, logdir=logdir, run="deep", memory=False, strict=True) as monitor:
        model(torch.ones(1, 2)).sum().backward()
        monitor.step()
    return decode_graph(read_run(logdir / "deep").latest["graph"])


def test_every_block_hears_of_all_before_it(logdir: Path) -> None:
    """On a stream of residuals each block gets something from every block before it."""
    assert 20 * 19 // 2 == len(graph_of(logdir, 20).edges)


def test_a_thousand_blocks_are_bounded(logdir: Path) -> None:
    """Where that would be half a million edges, the nearest blocks have to do; none is left without."""
    graph = graph_of(logdir, 1000)
    assert len(graph.edges) < MOST_OPERATIONS_IN_ALL
    assert {f"{number}.inner" for number in range(1, 1000)} == {edge.target for edge in graph.edges}
    assert ("998.inner", "999.inner") in {(edge.source, edge.target) for edge in graph.edges}
