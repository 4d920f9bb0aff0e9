"""Batches of which no two have the same shape: graphs of all sizes, sentences of all lengths."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches
from zoo.fit import descend, perceptron
from zoo.program import Zoo, healthy


class Messages(nn.Module):
    """Sums over neighbours, then over each graph; the batch is one large graph of many parts."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = nn.ModuleList([perceptron(2, 24, 24), perceptron(48, 24, 24)])
        self.head = nn.Linear(24, 3)

    def forward(self, edges: Tensor, owner: Tensor) -> Tensor:
        x = torch.ones(len(owner), 1)
        for layer in self.rounds:
            heard = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            x = functional.relu(layer(torch.cat([x, heard], 1)))
        whole = torch.zeros(int(owner[-1]) + 1, 24).index_add(0, owner, x)
        result: Tensor = self.head(whole)
        return result


def graph(kind: int, nodes: int) -> Tensor:
    """Edges in both directions of a ring, a star or a chain."""
    others = torch.arange(1, nodes)
    before = torch.zeros_like(others) if kind == 1 else others - 1
    if kind == 0:
        others, before = torch.arange(nodes), (torch.arange(nodes) - 1) % nodes
    return torch.cat([torch.stack([before, others]), torch.stack([others, before])], 1)


@healthy
def graphs_of_all_sizes(zoo: Zoo) -> None:
    """Ring, star or chain? Four to nine nodes each: no two batches have the same shape."""
    kinds, sizes = torch.randint(3, (300,)), torch.randint(4, 10, (300,))
    pool = [graph(kind, nodes) for kind, nodes in zip(kinds.tolist(), sizes.tolist(), strict=True)]
    model = Messages()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(chosen: Tensor) -> Tensor:
        starts = sizes[chosen].cumsum(0) - sizes[chosen]
        moved = [pool[place] + start for place, start in zip(chosen.tolist(), starts.tolist(), strict=True)]
        owner = torch.repeat_interleave(torch.arange(len(chosen)), sizes[chosen])
        return functional.cross_entropy(model(torch.cat(moved, 1), owner), kinds[chosen])

    descend(zoo, model, optimizer, batches(torch.arange(300), size=24, steps=150), loss_of)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(9, 16)
        self.gru = nn.GRU(16, 24, batch_first=True)
        self.head = nn.Linear(24, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.gru(self.embedding(tokens))
        result: Tensor = self.head(states)
        return result


@healthy
def accumulated_by_words(zoo: Zoo) -> None:
    """Batches are added up until there are 200 words: two to eight of them a step."""
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(120):
        optimizer.zero_grad()
        words, total = 0, 0.0
        while words < 200:
            tokens = torch.randint(9, (8, int(torch.randint(3, 15, ()))))
            tags = (tokens + tokens.roll(1, 1) * (torch.arange(tokens.shape[1]) > 0)) % 3
            loss = functional.cross_entropy(model(tokens).transpose(1, 2), tags, reduction="sum")
            loss.backward()
            words, total = words + tags.numel(), total + loss.item()
        for each in model.parameters():
            if each.grad is not None:
                each.grad /= words
        optimizer.step()
        monitor.step(loss=total / words)
