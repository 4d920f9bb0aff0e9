"""Losses, penalties and trainings that lead to the wrong place."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression
from zoo.fit import BLOWS_UP, STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick


@sick("loss-negative", also=("loss-input-range", *BLOWS_UP))
def cross_entropy_with_a_minus(zoo: Zoo) -> None:
    """The loss is maximised: a minus sign from a formula too many."""
    inputs, labels = blobs(600, features=16, classes=4)
    model = perceptron(16, 48, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=50, steps=150):
        loss = -functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("diverging-loss", also=("learning-rate-high", *BLOWS_UP))
def squared_error_climbs(zoo: Zoo) -> None:
    """Gradient ascent: the update of a hand-written optimizer adds the gradient."""
    inputs, targets = regression(500, features=8)
    model = perceptron(8, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, maximize=True)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=150), functional.mse_loss)


@sick(
    "weight-decay-high",
    also=("weight-collapse", "constant-output", "zero-gradients", "vanishing-gradients", *STANDS_STILL),
)
def weight_decay_of_twenty(zoo: Zoo) -> None:
    """weight_decay=20 instead of 2e-4: the weights shrink towards nothing."""
    inputs, labels = digits()
    model = perceptron(64, 48, 48, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=20.0)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=200),
        functional.cross_entropy,
    )


@sick("weight-collapse", also=("constant-output", "zero-gradients", "vanishing-gradients", *STANDS_STILL))
def penalty_summed_over_all_weights(zoo: Zoo) -> None:
    """An L2 penalty as large as the loss itself, on a regression net."""
    inputs, targets = regression(500, features=8)
    model = perceptron(8, 48, 48, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=50, steps=200):
        penalty = sum((parameter.square().sum() for parameter in model.parameters()), torch.zeros(()))
        loss = functional.mse_loss(model(x), y) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("weight-growth", also=BLOWS_UP)
def weight_decay_below_zero(zoo: Zoo) -> None:
    """Weights are multiplied by 1.05 in each step: a decay by hand with the wrong sign."""
    inputs, labels = blobs(600, features=16, classes=4)
    model = perceptron(16, 48, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=50, steps=200):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1.05)
        monitor.step(loss=loss)


@sick("overfitting", from_step=10)
def large_net_on_forty_rows(zoo: Zoo) -> None:
    """Forty noisy rows learned by heart while the validation loss climbs."""
    inputs, labels = blobs(240, features=30, classes=4, spread=0.3)
    model = perceptron(30, 256, 256, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs[:40], labels[:40], size=20, steps=250)):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                monitor.log(val_loss=functional.cross_entropy(model(inputs[40:]), labels[40:]))
            model.train()
        monitor.step(loss=loss)


@sick("overfitting", from_step=20)
def noise_learned_by_heart(zoo: Zoo) -> None:
    """A regression of 60 rows with more noise than signal; the evaluation has its own name."""
    inputs, targets = regression(200, features=20, noise=2.0)
    model = perceptron(20, 128, 128, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(30):
        for x, y in batches(inputs[:60], targets[:60], size=12, steps=10):
            loss = functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        model.eval()
        with torch.no_grad():
            monitor.log(validation_loss=functional.mse_loss(model(inputs[60:]), targets[60:]))
        model.train()


@sick("overfitting", from_step=60)
def random_labels_learned_by_a_cnn(zoo: Zoo) -> None:
    """Half of 80 labels are wrong, and a convolutional net learns them all."""
    pictures, labels = digits()
    wrong = torch.where(torch.rand(len(labels)) < 0.5, torch.randint(10, (len(labels),)), labels)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(12):
        for x, y in batches(pictures[:80], wrong[:80], size=16, steps=15):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        with torch.no_grad():
            monitor.log(val_loss=functional.cross_entropy(model(pictures[80:480]), labels[80:480]))
