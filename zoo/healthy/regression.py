"""Regression: small and large targets, small and large learning rates, losses by hand."""

from __future__ import annotations

import math

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from zoo.data import batches, regression
from zoo.program import Zoo, healthy


@healthy
def regression_with_mse(zoo: Zoo) -> None:
    """Unit inputs and targets, Adam, a DataLoader, validation after each epoch."""
    inputs, targets = regression(800, features=8)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    loader = DataLoader(TensorDataset(inputs[:640], targets[:640]), batch_size=32, shuffle=True)
    monitor = zoo.watch(model, optimizer)
    for _ in range(8):
        model.train()
        for x, y in loader:
            loss = functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        model.eval()
        with torch.no_grad():
            monitor.log(val_loss=functional.mse_loss(model(inputs[640:]), targets[640:]))


@healthy
def targets_of_a_millionth(zoo: Zoo) -> None:
    """Currents in ampere: all targets are about 1e-6 and so is everything that follows from them."""
    inputs, targets = regression(600, features=6)
    model = nn.Linear(6, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets * 1e-6, size=32, steps=200):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def targets_of_millions(zoo: Zoo) -> None:
    """House prices as they are: the loss begins at 1e12, and the weights have to grow a million times."""
    inputs, targets = regression(600, features=6)
    model = nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets * 1e6 + 2e6, size=50, steps=200):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def tiny_rate_on_large_columns(zoo: Zoo) -> None:
    """Linear regression by SGD on columns of about a hundred: only lr 1e-5 is right."""
    inputs, _ = regression(500, features=4)
    targets = inputs @ torch.tensor([[3.0], [-2.0], [1.0], [0.5]])
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs * 100, targets * 100, size=50, steps=200):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def rate_of_ten_on_small_gradients(zoo: Zoo) -> None:
    """Inputs of a tenth and a mean over everything: gradients so small that lr 10 is right."""
    inputs, _ = regression(500, features=5)
    targets = inputs @ torch.randn(5, 4)
    model = nn.Linear(5, 4, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs * 0.2, targets * 0.2, size=100, steps=150):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def newton_like_with_closure(zoo: Zoo) -> None:
    """LBFGS evaluates the loss many times in a step."""
    inputs, targets = regression(200, features=3, noise=0.02)
    model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=10, line_search_fn="strong_wolfe")
    monitor = zoo.watch(model, optimizer)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = functional.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    for _ in range(60):
        loss = optimizer.step(closure)
        monitor.step(loss=loss)


@healthy
def pinball_loss_by_hand(zoo: Zoo) -> None:
    """Three quantiles at once, with a loss of one's own."""
    inputs, targets = regression(800, features=4, noise=0.5)
    quantiles = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=64, steps=180):
        error = y - model(x)
        loss = torch.maximum(quantiles * error, (quantiles - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def gaussian_likelihood(zoo: Zoo) -> None:
    """Mean and variance are predicted: the loss goes below zero where the data have little noise."""
    inputs, targets = regression(800, features=2, noise=0.02)
    body = nn.Sequential(nn.Linear(2, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 2))
    optimizer = torch.optim.Adam(body.parameters(), lr=3e-3)
    criterion = nn.GaussianNLLLoss()
    monitor = zoo.watch(body, optimizer)
    for x, y in batches(inputs, targets, size=64, steps=250):
        mean, raw = body(x).chunk(2, 1)
        loss = criterion(mean, y, functional.softplus(raw) + 1e-4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def mixture_density_by_hand(zoo: Zoo) -> None:
    """A mixture of three Gaussians for a function with two values."""
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 9))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    monitor = zoo.watch(model, optimizer)
    for _ in range(200):
        x = 2 * torch.rand(128, 1) - 1
        y = torch.sign(torch.randn(128, 1)) * (x.abs() + 0.3) + 0.05 * torch.randn(128, 1)
        weight, mean, log_std = model(x).chunk(3, 1)
        log_std = log_std.clamp(-5, 3)
        density = -0.5 * ((y - mean) / log_std.exp()) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
        loss = -torch.logsumexp(weight.log_softmax(1) + density, 1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def perfect_fit_to_zero(zoo: Zoo) -> None:
    """A linear function without noise: the loss ends at rounding."""
    inputs = torch.randn(256, 5)
    targets = inputs @ torch.randn(5, 2) + 1.0
    model = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=64, steps=250):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def huber_on_diabetes(zoo: Zoo) -> None:
    """442 patients, standardised targets with outliers, Adagrad."""
    found = datasets.load_diabetes()
    inputs = torch.tensor(found.data, dtype=torch.float32) * 20
    targets = torch.tensor(found.target, dtype=torch.float32)
    targets = (targets - targets.mean()) / targets.std()
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.03)
    criterion = nn.SmoothL1Loss()
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=34, steps=160):
        loss = criterion(model(x).squeeze(-1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Heat(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.net(x)
        return result


@healthy
def physics_informed(zoo: Zoo) -> None:
    """u'' = -u with u(0) = 0 and u'(0) = 1: derivatives of the network are its loss."""
    model = Heat()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    monitor = zoo.watch(model, optimizer)
    for _ in range(200):
        x = (3 * torch.rand(64, 1)).requires_grad_()
        u = model(x)
        first = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        second = torch.autograd.grad(first.sum(), x, create_graph=True)[0]
        start = torch.zeros(1, 1, requires_grad=True)
        u0 = model(start)
        slope = torch.autograd.grad(u0.sum(), start, create_graph=True)[0]
        loss = ((second + u) ** 2).mean() + 5 * (u0**2).sum() + 5 * ((slope - 1) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
