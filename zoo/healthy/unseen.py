"""Fields and losses that no other family has: energies, boxes, mixtures, codebooks, rotations, rare words."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, update_bn

from zoo.data import batches, blobs, digits
from zoo.fit import descend, fit, perceptron
from zoo.program import Zoo, healthy


@healthy
def energy_by_contrast(zoo: Zoo) -> None:
    """An energy model: data low, its own Langevin samples high; the loss is around 0, of either sign."""
    corners = torch.tensor([[2.0, 0.0], [-1.0, 1.7], [-1.0, -1.7]])
    model = perceptron(2, 64, 64, 1, activation=nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.0, 0.999))
    monitor = zoo.watch(model, optimizer)
    chains = 3 * torch.randn(128, 2)
    for _ in range(160):
        for _ in range(6):
            chains.requires_grad_(True)
            (slope,) = torch.autograd.grad(model(chains).sum(), chains)
            chains = (chains - 0.1 * slope + 0.1 * torch.randn_like(chains)).detach().clamp(-4, 4)
        real = corners[torch.randint(3, (128,))] + 0.3 * torch.randn(128, 2)
        low, high = model(real), model(chains)
        loss = (low - high).mean() + 0.05 * (low.square() + high.square()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def pictures_mixed_in_pairs(zoo: Zoo) -> None:
    """Mixup: each picture is a blend of two, with two labels; the loss stays high though all is learned."""
    pictures, labels = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        share = torch.distributions.Beta(1.0, 1.0).sample((len(x),))
        other = torch.randperm(len(x))
        parts = share.view(-1, 1, 1, 1)
        targets = functional.one_hot(y, 10).float()
        blended = share[:, None] * targets + (1 - share[:, None]) * targets[other]
        return functional.cross_entropy(model(parts * x + (1 - parts) * x[other]), blended)

    descend(zoo, model, optimizer, batches(pictures, labels, size=48, steps=200), loss_of)


class Detector(nn.Module):
    """For each of sixteen cells: is there a thing, where and how large is it, and of which kind?"""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()
        )
        self.thing, self.box, self.kind = nn.Conv2d(32, 1, 1), nn.Conv2d(32, 3, 1), nn.Conv2d(32, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = self.trunk(x)
        return self.thing(found)[:, 0], self.box(found).sigmoid(), self.kind(found)


def scenes(count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pictures of 16 × 16 with a bright or a dark square each, its cell, its place and size, and its kind."""
    pictures = 0.2 * torch.randn(count, 1, 16, 16)
    corner, sides = torch.randint(0, 11, (count, 2)), torch.randint(3, 6, (count,))
    kinds = torch.randint(2, (count,))
    places = zip(pictures, corner.tolist(), sides.tolist(), kinds, strict=True)
    for picture, (top, left), side, kind in places:
        picture[0, top : top + side, left : left + side] += 2.0 * kind - 1
    middles = corner + sides[:, None] / 2
    cells = (middles / 4).long()
    return pictures, cells, torch.cat([middles / 4 - cells, sides[:, None] / 8], 1), kinds


@healthy
def squares_detected(zoo: Zoo) -> None:
    """Boxes in a grid: one cell of sixteen has something, and only there count box and kind."""
    model = Detector()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor, cells: Tensor, wanted: Tensor, kinds: Tensor) -> Tensor:
        thing, box, kind = model(x)
        rows, (down, right) = torch.arange(len(x)), cells.T
        there = torch.zeros_like(thing)
        there[rows, down, right] = 1.0
        total: Tensor = (
            functional.binary_cross_entropy_with_logits(thing, there, reduction="sum")
            + 5 * functional.mse_loss(box[rows, :, down, right], wanted, reduction="sum")
            + functional.cross_entropy(kind[rows, :, down, right], kinds, reduction="sum")
        ) / len(x)
        return total

    descend(zoo, model, optimizer, batches(*scenes(500), size=32, steps=180), loss_of)


@healthy
def weights_averaged_at_a_high_rate(zoo: Zoo) -> None:
    """SWA: the rate stays high to the end, and the average of the weights gets its batch statistics last."""
    inputs, labels = blobs(1000, features=16, classes=6, spread=0.9)
    model = nn.Sequential(nn.Linear(16, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 6))
    average = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs[:800], labels[:800], size=32, steps=200)):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if step >= 100 and step % 10 == 0:
            average.update_parameters(model)
    update_bn(inputs[:800].split(100), average)
    average.eval()
    with torch.no_grad():
        monitor.log(averaged_loss=functional.cross_entropy(average(inputs[800:]), labels[800:]))


@healthy
def pendulum_from_its_energy(zoo: Zoo) -> None:
    """A Hamiltonian network in float64: what is fitted is the slope of its output, not the output."""
    model = perceptron(2, 48, 48, 1, activation=nn.Tanh).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    places = torch.rand(600, 2, dtype=torch.float64) * 4 - 2
    speeds = torch.stack([places[:, 1], -torch.sin(places[:, 0])], 1)

    def loss_of(x: Tensor, wanted: Tensor) -> Tensor:
        x = x.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return functional.mse_loss(torch.stack([slope[:, 1], -slope[:, 0]], 1), wanted)

    descend(zoo, model, optimizer, batches(places, speeds, size=100, steps=200), loss_of)


class Forecaster(nn.Module):
    """Dilated convolutions that see the past only; each window is measured by its own level and spread."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(a, 16, 2, dilation=d) for a, d in ((1, 1), (16, 2), (16, 4)))
        self.head = nn.Conv1d(16, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        level, spread = x.mean(2, keepdim=True), x.std(2, keepdim=True)
        h = (x - level) / spread
        for layer, dilation in zip(self.layers, (1, 2, 4), strict=True):
            h = torch.relu(layer(functional.pad(h, (dilation, 0))))
        result: Tensor = self.head(h)[:, :, -1:] * spread + level
        return result


@healthy
def sales_that_grow_and_swing(zoo: Zoo) -> None:
    """Windows of one long series, from 1000 to 5000 and never shuffled; tomorrow is asked for."""
    days = torch.arange(4300.0)
    series = 1000 + days * 0.9 + 150 * torch.sin(days * 6.283 / 7) + 20 * torch.randn(4300)
    windows = series.unfold(0, 22, 1)[:, None]
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    feed = ((each[:, :, :-1], each[:, :, -1:]) for each in windows.split(21))
    fit(zoo, model, optimizer, feed, nn.L1Loss())


class Product(nn.Module):
    """A table of 30 × 30 as a product of three matrices, all of them nearly zero at first."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = nn.ParameterList(0.03 * torch.randn(30, 30) for _ in range(3))

    def forward(self) -> Tensor:
        first, second, third = self.factors
        product: Tensor = first @ second @ third
        return product


@healthy
def table_completed_from_four_cells_in_ten(zoo: Zoo) -> None:
    """Deep matrix factorisation: the loss stands still for eighty steps, then falls in stairs."""
    truth = torch.randn(30, 2) @ torch.randn(2, 30) / 2
    known = torch.rand(30, 30) < 0.4
    model = Product()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)

    def loss_of() -> Tensor:
        error: Tensor = (model() - truth)[known].square().sum() / 30
        return error

    descend(zoo, model, optimizer, [()] * 250, loss_of)


class Angles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = perceptron(64, 64, 16)
        self.centres = nn.Parameter(torch.randn(10, 16))

    def forward(self, x: Tensor) -> Tensor:
        return functional.normalize(self.body(x), dim=1) @ functional.normalize(self.centres, dim=1).T


@healthy
def faces_by_an_angle_and_a_margin(zoo: Zoo) -> None:
    """ArcFace: cosines times 30 and a margin of half a radian; the first loss is ten times a guess."""
    pictures, labels = digits()
    model = Angles()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        cosines = model(x).clamp(-0.999, 0.999)
        moved = torch.cos(cosines.acos() + 0.5 * functional.one_hot(y, 10))
        return functional.cross_entropy(30 * moved, y)

    feed = batches(pictures.flatten(1), labels, size=64, steps=220)
    descend(zoo, model, optimizer, feed, loss_of)


@healthy
def labels_guessed_where_certain(zoo: Zoo) -> None:
    """FixMatch: four labels a class, others are the network's own where it is certain: from 0 on."""
    pictures, labels = digits()
    inputs = pictures.flatten(1)
    given = torch.cat([(labels == each).nonzero()[:4, 0] for each in range(10)])
    model = perceptron(64, 64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def loss_of(x: Tensor) -> Tensor:
        known = functional.cross_entropy(model(inputs[given] + 0.1 * torch.randn(40, 64)), labels[given])
        with torch.no_grad():
            certainty, guessed = model(x + 0.05 * torch.randn_like(x)).softmax(1).max(1)
        hidden = x * (torch.rand_like(x) < 0.7) + 0.2 * torch.randn_like(x)
        each = functional.cross_entropy(model(hidden), guessed, reduction="none")
        loss: Tensor = known + (each * (certainty > 0.95)).mean()
        return loss

    descend(zoo, model, optimizer, batches(inputs, size=64, steps=220), loss_of)


class Codebook(nn.Module):
    """Pictures as four numbers of a table of 64 entries, of which many are never the nearest."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = perceptron(64, 64, 32), perceptron(32, 64, 64)
        self.norm = nn.BatchNorm1d(32, affine=False)
        self.table = nn.Embedding(64, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        parts = self.norm(self.encoder(x)).view(len(x), 4, 8)
        nearest = self.table(torch.cdist(parts, self.table.weight[None]).argmin(2))
        apart = functional.mse_loss(nearest, parts.detach())
        apart = apart + 0.25 * functional.mse_loss(parts, nearest.detach())
        passed = parts + (nearest - parts).detach()
        decoded: Tensor = self.decoder(passed.flatten(1))
        return decoded, apart


@healthy
def pictures_from_a_codebook(zoo: Zoo) -> None:
    """VQ-VAE: gradients go straight through a choice; most rows of the table have none, step for step."""
    model = Codebook()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_of(x: Tensor) -> Tensor:
        found, apart = model(x)
        loss: Tensor = functional.mse_loss(found, x) + apart
        return loss

    descend(zoo, model, optimizer, batches(digits()[0].flatten(1), size=64, steps=200), loss_of)


class Masked(nn.Linear):
    """A linear layer of which only the connections in `mask` exist."""

    def __init__(self, mask: Tensor) -> None:
        super().__init__(mask.shape[1], mask.shape[0])
        self.mask: Tensor
        self.register_buffer("mask", mask.float())

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight * self.mask, self.bias)


@healthy
def each_pixel_from_those_before(zoo: Zoo) -> None:
    """MADE: half of all weights are masked and never move; the loss is a sum over 64 pixels, in nats."""
    pictures = (digits()[0].flatten(1) > 0.4).float()
    orders = [torch.arange(64), torch.randint(63, (128,)), torch.randint(63, (128,)), torch.arange(64) - 1]
    layers: list[nn.Module] = []
    for before, after in pairwise(orders):
        layers += [Masked(after[:, None] >= before[None]), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor) -> Tensor:
        each = functional.binary_cross_entropy_with_logits(model(x), x, reduction="none")
        return each.sum(1).mean()

    descend(zoo, model, optimizer, batches(pictures, size=64, steps=200), loss_of)


@healthy
def words_hashed_into_buckets(zoo: Zoo) -> None:
    """Logistic regression on 4096 hashed words, twelve a text: three inputs in a thousand are not zero."""
    kinds = torch.randint(2, (2000,))
    common = torch.randint(3000, (2000, 8))
    telling = torch.randint(40, (2000, 4)) + 3000 + 40 * kinds[:, None]
    buckets = torch.cat([common, telling], 1) * 2654435761 % 4096
    counts = torch.zeros(2000, 4096).scatter_add_(1, buckets, torch.ones(2000, 12))
    model = nn.Linear(4096, 1)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    feed = batches(counts, kinds.float()[:, None], size=32, steps=200)
    fit(zoo, model, optimizer, feed, functional.binary_cross_entropy_with_logits)
