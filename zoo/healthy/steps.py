"""Steps made in other ways than by one backward pass of one loss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, prune, vector_to_parameters

from zoo.data import batches, blobs, digits, regression
from zoo.fit import descend, perceptron
from zoo.program import Zoo, healthy


@healthy
def sharpness_aware_steps(zoo: Zoo) -> None:
    """SAM: uphill to the worst point nearby, a second backward pass there, and back for the step."""
    pictures, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures.flatten(1), labels, size=64, steps=160):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        here = [each.detach().clone() for each in model.parameters()]
        with torch.no_grad():
            for each in model.parameters():
                if each.grad is not None:
                    each.add_(each.grad / norm, alpha=0.05)
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for each, place in zip(model.parameters(), here, strict=True):
                each.copy_(place)
        optimizer.step()
        monitor.step(loss=loss)


class TwoTasks(nn.Module):
    """Which digit and how much ink, and how uncertain each of the two is."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 48), nn.ReLU())
        self.digit, self.ink = nn.Linear(48, 10), nn.Linear(48, 1)
        self.log_variances = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return self.digit(features), self.ink(features)


@healthy
def tasks_weighted_by_their_uncertainty(zoo: Zoo) -> None:
    """Kendall's weights: the better a task is learned, the more it counts, and the sum falls below zero."""
    pictures, labels = digits()
    inputs = pictures.flatten(1)
    ink = inputs.mean(1, keepdim=True)
    ink = (ink - ink.mean()) / ink.std()
    model = TwoTasks()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def loss_of(x: Tensor, y: Tensor, wanted: Tensor) -> Tensor:
        scores, found = model(x)
        losses = torch.stack([functional.cross_entropy(scores, y), functional.mse_loss(found, wanted)])
        return (losses * (-model.log_variances).exp() + 0.5 * model.log_variances).sum()

    descend(zoo, model, optimizer, batches(inputs, labels, ink, size=64, steps=240), loss_of)


class Reversed(torch.autograd.Function):
    """The identity, with a gradient of the other sign."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:
        return -0.3 * slope


@healthy
def domain_head_that_is_to_fail(zoo: Zoo) -> None:
    """Gradient reversal: features must not tell where a row is from, so one of the losses rises to chance."""
    inputs, labels = blobs(1200, features=16, classes=4)
    origin = torch.arange(1200) % 2
    inputs = inputs + 0.5 * origin[:, None] * torch.randn(16)
    body, label, domain = perceptron(16, 48, 24), nn.Linear(24, 4), perceptron(24, 24, 2)
    model = nn.ModuleDict({"body": body, "label": label, "domain": domain})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y, where in batches(inputs, labels, origin, size=64, steps=200):
        features = functional.relu(body(x))
        known = where == 0  # rows from elsewhere have no label
        loss = functional.cross_entropy(label(features[known]), y[known])
        domain_loss = functional.cross_entropy(domain(Reversed.apply(features)), where)  # type: ignore[no-untyped-call]
        optimizer.zero_grad()
        (loss + domain_loss).backward()
        optimizer.step()
        monitor.step(loss=loss, domain_loss=domain_loss)


@healthy
def evolved_without_backward(zoo: Zoo) -> None:
    """Evolution strategies: ten random directions, forth and back, make a gradient without autograd."""
    inputs, targets = regression(600, features=4)
    model = perceptron(4, 8, 1, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    monitor = zoo.watch(model, optimizer)
    with torch.no_grad():
        for x, y in batches(inputs, targets, size=100, steps=180):
            here = parameters_to_vector(model.parameters())
            slope = torch.zeros_like(here)
            for direction in torch.randn(10, len(here)):
                for sign in (1, -1):
                    vector_to_parameters(here + sign * 0.05 * direction, model.parameters())
                    slope += sign * functional.mse_loss(model(x), y) * direction
            vector_to_parameters(here, model.parameters())
            parts = (slope / (2 * 10 * 0.05)).split([each.numel() for each in model.parameters()])
            for each, part in zip(model.parameters(), parts, strict=True):
                each.grad = part.view_as(each)
            optimizer.step()
            monitor.step(loss=functional.mse_loss(model(x), y))


@healthy
def layers_that_learn_for_themselves(zoo: Zoo) -> None:
    """Each layer has a head and a loss of its own; between layers everything is detached, on purpose."""
    pictures, labels = digits()
    layers = nn.ModuleList(nn.Linear(inputs, 48) for inputs in (64, 48, 48))
    heads = nn.ModuleList(nn.Linear(48, 10) for _ in range(3))
    model = nn.ModuleDict({"layers": layers, "heads": heads})
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros(())
        for layer, head in zip(layers, heads, strict=True):
            x = functional.relu(layer(x.detach()))
            total = total + functional.cross_entropy(head(x), y)
        return total

    descend(zoo, model, optimizer, batches(pictures.flatten(1), labels, size=64, steps=160), loss_of)


@healthy
def private_gradients_by_row(zoo: Zoo) -> None:
    """DP-SGD: a gradient for each row by vmap, each clipped, and noise; backward() is never called."""
    pictures, labels = digits()
    model = perceptron(64, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    monitor = zoo.watch(model, optimizer)
    weights = {name: each.detach() for name, each in model.named_parameters()}

    def loss_of(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        scores = torch.func.functional_call(model, parameters, x[None])
        result: Tensor = functional.cross_entropy(scores, y[None])
        return result

    by_row = torch.func.vmap(torch.func.grad_and_value(loss_of), in_dims=(None, 0, 0))
    for x, y in batches(pictures.flatten(1), labels, size=64, steps=160):
        slopes, losses = by_row(weights, x, y)
        norms = torch.stack([each.flatten(1).norm(dim=1) for each in slopes.values()]).norm(dim=0)
        shares = (1 / norms).clamp(max=1)
        for name, each in model.named_parameters():
            total = torch.tensordot(shares, slopes[name], 1)
            each.grad = (total + 0.3 * torch.randn_like(total)) / len(x)
        optimizer.step()
        monitor.step(loss=losses.mean())


def orthogonal(matrix: Tensor) -> Tensor:
    """Near to the nearest matrix whose singular values are all one, by Newton and Schulz."""
    x: Tensor = matrix / (matrix.norm() + 1e-7)
    for _ in range(5):
        square = x @ x.T
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return x


class Muon(torch.optim.Optimizer):
    """Momentum made orthogonal: all directions of a matrix move alike."""

    def __init__(self, parameters: Iterable[Tensor], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        with torch.no_grad():
            for group in self.param_groups:
                for each in group["params"]:
                    mean = self.state[each].setdefault("momentum", torch.zeros_like(each))
                    mean.mul_(0.9).add_(each.grad)
                    each.sub_(orthogonal(mean), alpha=group["lr"])


@healthy
def momentum_made_orthogonal(zoo: Zoo) -> None:
    """Muon for matrices, SGD for biases: updates have one size, however small the gradients become."""
    pictures, labels = digits()
    model = perceptron(64, 48, 48, 10)
    matrices = [each for each in model.parameters() if each.ndim == 2]
    biases = [each for each in model.parameters() if each.ndim == 1]
    optimizers = [Muon(matrices, lr=0.02), torch.optim.SGD(biases, lr=0.02)]
    monitor = zoo.watch(model, optimizers)
    for x, y in batches(pictures.flatten(1), labels, size=64, steps=150):
        loss = functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        monitor.step(loss=loss)


@healthy
def pruned_in_the_middle(zoo: Zoo) -> None:
    """Four fifths of all weights become zero for good after a hundred steps; the rest makes up for it."""
    pictures, labels = digits()
    model = perceptron(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(pictures.flatten(1), labels, size=64, steps=240)):
        if step == 100:
            for layer in (model[0], model[2]):
                prune.l1_unstructured(layer, "weight", amount=0.8)
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
