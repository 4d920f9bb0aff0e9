"""Learning rates that change, weights that are meant to vanish, and losses that take their time."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression
from zoo.program import Zoo, healthy


def perceptron(inputs: int, outputs: int, hidden: int = 48) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
    )


@healthy
def warm_up_from_zero(zoo: Zoo) -> None:
    """The learning rate of the very first step is exactly zero, and small for sixty more."""
    inputs, labels = digits()
    model = perceptron(64, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 60))
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=32, steps=200):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@healthy
def cosine_down_to_zero(zoo: Zoo) -> None:
    """Updates fade to nothing at the end, as planned."""
    inputs, labels = blobs(900, features=20, classes=6)
    model = perceptron(20, 6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=200)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=50, steps=200):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@healthy
def one_cycle_to_a_high_rate(zoo: Zoo) -> None:
    """Super-convergence: up to lr 0.3 and down again."""
    inputs, labels = digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.3, total_steps=180)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=64, steps=180):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@healthy
def warm_restarts(zoo: Zoo) -> None:
    """Cosine with restarts: the loss hops up a little at each."""
    inputs, targets = regression(800, features=8)
    model = perceptron(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=40, T_mult=2)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=50, steps=240):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@healthy
def steps_of_a_tenth(zoo: Zoo) -> None:
    """MultiStepLR: in the last third the rate is a hundredth of what it was, and little changes."""
    inputs, labels = digits()
    model = perceptron(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[100, 170], gamma=0.1)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=32, steps=240):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@healthy
def rate_lowered_on_plateau(zoo: Zoo) -> None:
    """ReduceLROnPlateau on the validation loss."""
    inputs, targets = regression(600, features=6, noise=0.4)
    model = perceptron(6, 1, hidden=24)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=1)
    monitor = zoo.watch(model, optimizer)
    for _ in range(10):
        model.train()
        for x, y in batches(inputs[:480], targets[:480], size=24, steps=20):
            loss = functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        model.eval()
        with torch.no_grad():
            validation = functional.mse_loss(model(inputs[480:]), targets[480:])
        scheduler.step(validation)
        monitor.log(val_loss=validation)


@healthy
def learning_rate_finder(zoo: Zoo) -> None:
    """From 1e-4 up by ten percent a step until just before it would diverge."""
    inputs, labels = digits()
    model = perceptron(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=64, steps=100):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        optimizer.param_groups[0]["lr"] *= 1.1


@healthy
def weights_decay_to_nothing(zoo: Zoo) -> None:
    """Pruning by weight decay: most columns are noise, and their weights are to vanish."""
    inputs = torch.randn(800, 60)
    targets = inputs[:, :1] * 2 - inputs[:, 1:2]
    model = nn.Linear(60, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=64, steps=250):
        loss = functional.mse_loss(model(x), y) + 0.1 * model.weight.abs().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.weight[model.weight.abs() < 0.01] = 0.0
        monitor.step(loss=loss)


@healthy
def plateau_that_is_left(zoo: Zoo) -> None:
    """Parity of three bits among eight: nothing for a while, then all at once."""
    bits = torch.randint(0, 2, (2000, 8)).float()
    labels = bits[:, :3].sum(1).remainder(2).long()
    model = perceptron(8, 2, hidden=64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(bits * 2 - 1, labels, size=64, steps=300):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def curriculum_of_harder_data(zoo: Zoo) -> None:
    """Every hundred steps the task gets harder, and the loss jumps up."""
    model = perceptron(10, 5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    centres = torch.randn(5, 10)
    monitor = zoo.watch(model, optimizer)
    for step in range(300):
        labels = torch.randint(5, (64,))
        inputs = centres[labels] + (0.3, 0.8, 1.3)[step // 100] * torch.randn(64, 10)
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def inverse_root_warm_up_by_hand(zoo: Zoo) -> None:
    """Inverse square root after a linear warm-up, set in the loop as in the transformer paper."""
    inputs, labels = blobs(800, features=12, classes=4, spread=1.0)
    model = nn.Sequential(nn.Linear(12, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98), eps=1e-9)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs, labels, size=40, steps=200), start=1):
        for group in optimizer.param_groups:
            group["lr"] = 0.05 / math.sqrt(64) * min(step**-0.5, step * 40**-1.5) * 5
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
