"""Embeddings: words, users, pairs and triplets."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits
from zoo.program import Zoo, healthy


@healthy
def sparse_word_vectors(zoo: Zoo) -> None:
    """Skip-gram with negative samples: gradients are sparse tensors, SparseAdam."""
    words, width = 500, 16
    inner, outer = nn.Embedding(words, width, sparse=True), nn.Embedding(words, width, sparse=True)
    nn.init.zeros_(outer.weight)
    model = nn.ModuleList([inner, outer])
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.02)
    monitor = zoo.watch(model, optimizer)
    for _ in range(200):
        centre = torch.randint(words, (128,))
        context = (centre + torch.randint(1, 4, (128,))) % words
        random = torch.randint(words, (128, 4))
        positive = (inner(centre) * outer(context)).sum(1)
        negative = torch.einsum("bd,bkd->bk", inner(centre), outer(random))
        loss = -(functional.logsigmoid(positive).mean() + functional.logsigmoid(-negative).sum(1).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Factors(nn.Module):
    def __init__(self, users: int, films: int, width: int) -> None:
        super().__init__()
        self.users, self.films = nn.Embedding(users, width), nn.Embedding(films, width)
        self.user_bias, self.film_bias = nn.Embedding(users, 1), nn.Embedding(films, 1)
        for table in (self.users, self.films):
            nn.init.normal_(table.weight, std=0.1)
        nn.init.zeros_(self.user_bias.weight)
        nn.init.zeros_(self.film_bias.weight)

    def forward(self, user: Tensor, film: Tensor) -> Tensor:
        product = (self.users(user) * self.films(film)).sum(1)
        result: Tensor = product + self.user_bias(user).squeeze(1) + self.film_bias(film).squeeze(1) + 3.0
        return result


@healthy
def matrix_factorisation(zoo: Zoo) -> None:
    """Ratings of users for films: each batch touches a few rows of the tables."""
    taste, kind = torch.randn(200, 3), torch.randn(120, 3)
    model = Factors(200, 120, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03, weight_decay=1e-5)
    monitor = zoo.watch(model, optimizer)
    for _ in range(250):
        user, film = torch.randint(200, (256,)), torch.randint(120, (256,))
        rating = (3 + (taste[user] * kind[film]).sum(1)).clamp(1, 5)
        loss = functional.mse_loss(model(user, film), rating)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def contrastive_two_views(zoo: Zoo) -> None:
    """InfoNCE: which of 64 noisy copies belongs to which."""
    inputs, _ = blobs(1000, features=16, classes=20)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=150):
        one = functional.normalize(model(x + 0.2 * torch.randn_like(x)), dim=1)
        two = functional.normalize(model(x + 0.2 * torch.randn_like(x)), dim=1)
        loss = functional.cross_entropy(one @ two.T / 0.1, torch.arange(len(x)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def triplets_of_digits(zoo: Zoo) -> None:
    """A margin loss that is exactly zero for more and more batches."""
    inputs, labels = digits()
    inputs = inputs.flatten(1)
    by_label = [inputs[labels == digit] for digit in range(10)]
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.TripletMarginLoss(margin=0.5)
    monitor = zoo.watch(model, optimizer)
    for _ in range(200):
        rows = []
        for _ in range(24):
            same, other = torch.randperm(10)[:2].tolist()
            pair = by_label[same][torch.randint(len(by_label[same]), (2,))]
            rows.append(torch.cat([pair, by_label[other][torch.randint(len(by_label[other]), (1,))]]))
        anchor, positive, negative = torch.stack(rows, 1)
        loss = criterion(model(anchor), model(positive), model(negative))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def siamese_same_or_not(zoo: Zoo) -> None:
    """One network twice in a step; a contrastive loss by hand."""
    inputs, labels = blobs(600, features=12, classes=5)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for a, b in zip(
        batches(inputs, labels, size=64, steps=160), batches(inputs, labels, size=64, steps=160), strict=True
    ):
        same = (a[1] == b[1]).float()
        distance = functional.pairwise_distance(model(a[0]), model(b[0]))
        loss = (same * distance**2 + (1 - same) * functional.relu(2.0 - distance) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def bag_of_words_ranker(zoo: Zoo) -> None:
    """EmbeddingBag over rare words, Bayesian personalised ranking."""
    model = nn.ModuleDict({"query": nn.EmbeddingBag(300, 16), "item": nn.Embedding(60, 16)})
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    monitor = zoo.watch(model, optimizer)
    for _ in range(200):
        item = torch.randint(60, (64,))
        words = item[:, None] * 5 + torch.randint(5, (64, 3))
        wrong = torch.randint(60, (64,))
        query = model["query"](words)
        margin = (query * (model["item"](item) - model["item"](wrong))).sum(1)
        loss = -functional.logsigmoid(margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class GraphConvolution(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        result: Tensor = adjacency @ self.linear(x)
        return result


class GraphNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(16, 24), GraphConvolution(24, 3)

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        result: Tensor = self.second(functional.relu(self.first(x, adjacency)), adjacency)
        return result


@healthy
def graph_network_by_hand(zoo: Zoo) -> None:
    """Node classification, the whole graph in each step, ten labelled nodes of a class."""
    labels = torch.arange(90) // 30
    same = labels[:, None] == labels[None]
    edges = torch.rand(90, 90) < torch.where(same, 0.15, 0.02)
    adjacency = (edges | edges.T | torch.eye(90, dtype=torch.bool)).float()
    degree = adjacency.sum(1).rsqrt()
    adjacency = degree[:, None] * adjacency * degree[None]
    features = torch.randn(90, 16) + 0.5 * functional.one_hot(labels, 16)
    known = torch.randperm(90)[:40]
    model = GraphNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        loss = functional.cross_entropy(model(features, adjacency)[known], labels[known])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
