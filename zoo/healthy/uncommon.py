"""Losses and networks out of the ordinary: counts, survival, discs, equations, captions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, discs
from zoo.fit import descend, fit, perceptron
from zoo.program import Zoo, healthy


@healthy
def visitors_counted(zoo: Zoo) -> None:
    """Poisson regression of counts up to hundreds: the loss falls from 1 to far below zero."""
    inputs = torch.randn(900, 6)
    rates = (4 + 0.5 * inputs[:, 0] - 0.3 * inputs[:, 1] * inputs[:, 2].tanh()).exp()
    counts = torch.poisson(rates)[:, None]
    model = perceptron(6, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(zoo, model, optimizer, batches(inputs, counts, size=64, steps=220), nn.PoissonNLLLoss())


@healthy
def survival_by_partial_likelihood(zoo: Zoo) -> None:
    """Cox: all patients in one batch, sorted by time; a third are still alive, and the loss falls little."""
    inputs = torch.randn(300, 6)
    hazards = (1.5 * inputs[:, 0] - inputs[:, 1] + inputs[:, 2].square()).exp()
    times = -torch.rand(300).clamp(min=1e-6).log() / hazards
    order = times.argsort(descending=True)
    inputs, died = inputs[order], (torch.rand(300) < 0.67).float()
    model = perceptron(6, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)

    def loss_of(x: Tensor, event: Tensor) -> Tensor:
        scores: Tensor = model(x)[:, 0]
        return -((scores - scores.logcumsumexp(0)) * event).sum() / event.sum()

    descend(zoo, model, optimizer, [(inputs, died)] * 150, loss_of)


@healthy
def overlap_of_discs(zoo: Zoo) -> None:
    """A Dice loss for each picture: from 0.8 down, of discs that fill a tenth of it."""
    pictures, masks = discs(500)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of(x: Tensor, mask: Tensor) -> Tensor:
        shares: Tensor = model(x).sigmoid()
        overlap = 2 * (shares * mask).sum((1, 2, 3)) + 1
        return 1 - (overlap / (shares.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)).mean()

    descend(zoo, model, optimizer, batches(pictures, masks, size=32, steps=160), loss_of)


class Euler(nn.Module):
    """dx/dt is a network: it is asked once in each of twelve small steps of time."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = perceptron(2, 32, 2, activation=nn.Tanh)

    def forward(self, x: Tensor) -> Tensor:
        places = []
        for _ in range(12):
            x = x + 0.15 * self.slope(x)
            places.append(x)
        return torch.stack(places, 1)


@healthy
def spiral_by_euler_steps(zoo: Zoo) -> None:
    """A neural differential equation: one small network, used twelve times in a row, follows a spiral."""
    turn = torch.linalg.matrix_exp(0.15 * torch.tensor([[-0.2, 1.5], [-1.5, -0.2]]))
    places = [torch.randn(400, 2)]
    for _ in range(12):
        places.append(places[-1] @ turn.T)
    model = Euler()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    feed = batches(places[0], torch.stack(places[1:], 1), size=32, steps=140)
    fit(zoo, model, optimizer, feed, functional.mse_loss)


class Hypernetwork(nn.Module):
    """Makes the 37 weights of a small network from a description of its task."""

    def __init__(self) -> None:
        super().__init__()
        self.maker = perceptron(2, 64, 37)

    def forward(self, task: Tensor, x: Tensor) -> Tensor:
        first, offset, last, bias = self.maker(task)[:, None].split([12, 12, 12, 1], 2)
        result: Tensor = (torch.tanh(x * first + offset) * last).sum(2, keepdim=True) + bias
        return result


@healthy
def weights_from_a_hypernetwork(zoo: Zoo) -> None:
    """Each row of a batch is a task of its own, with weights of its own, and twenty points."""
    model = Hypernetwork()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of() -> Tensor:
        task = torch.rand(32, 2)
        x = 4 * torch.rand(32, 20, 1) - 2
        wanted = (0.5 + task[:, :1, None]) * torch.sin(2 * x + 2 * task[:, 1:, None])
        return functional.mse_loss(model(task, x), wanted)

    descend(zoo, model, optimizer, [()] * 250, loss_of)


class Equilibrium(nn.Module):
    """A layer applied until nothing changes any more; only the last time has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.inner = nn.Linear(16, 32), nn.Linear(32, 32, bias=False)
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        entered = self.enter(x)
        with torch.no_grad():
            state = torch.zeros_like(entered)
            for _ in range(10):
                state = torch.tanh(self.inner(state) + entered)
        result: Tensor = self.head(torch.tanh(self.inner(state) + entered))
        return result


@healthy
def fixed_point_of_a_layer(zoo: Zoo) -> None:
    """A deep equilibrium model: ten uses of a layer under no_grad(), one with a gradient."""
    inputs, labels = blobs(800, features=16, classes=5, spread=1.0)
    model = Equilibrium()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=50, steps=150), functional.cross_entropy)


class Sine(nn.Module):
    def __init__(self, inputs: int, bound: float) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, 64)
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(20 * self.linear(x))


@healthy
def sine_network_draws_a_picture(zoo: Zoo) -> None:
    """SIREN: from the place of a pixel to its grey, all pixels in each step, sines with a factor of 20."""
    steps = torch.linspace(-1, 1, 20)
    places = torch.cartesian_prod(steps, steps)
    greys = (torch.sin(6 * places[:, :1]) * torch.cos(9 * places[:, 1:])).sign() * 0.5
    model = nn.Sequential(Sine(2, 1 / 2), Sine(64, math.sqrt(6 / 64) / 20), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, [(places, greys)] * 180, functional.mse_loss)


class Captioned(nn.Module):
    """Two encoders and a temperature that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.picture = perceptron(64, 64, 16)
        self.words = nn.EmbeddingBag(16, 32)
        self.caption = perceptron(32, 64, 16)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, pictures: Tensor, words: Tensor) -> Tensor:
        one = functional.normalize(self.picture(pictures), dim=1)
        two = functional.normalize(self.caption(self.words(words)), dim=1)
        return self.log_scale.exp().clamp(max=100) * one @ two.T


@healthy
def pictures_and_captions(zoo: Zoo) -> None:
    """CLIP: which caption of the batch belongs to which picture, and the other way round."""
    traits = torch.randint(2, (2000, 8))
    words = torch.arange(8) * 2 + traits
    pictures = (2.0 * traits - 1) @ torch.randn(8, 64) / 3 + 0.3 * torch.randn(2000, 64)
    model = Captioned()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    right = torch.arange(48)

    def loss_of(x: Tensor, said: Tensor) -> Tensor:
        scores = model(x, said)
        return 0.5 * (functional.cross_entropy(scores, right) + functional.cross_entropy(scores.T, right))

    descend(zoo, model, optimizer, batches(pictures, words, size=48, steps=180), loss_of)
