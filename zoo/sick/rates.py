"""Learning rates that are wrong."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression, shapes
from zoo.fit import BLOWS_UP, STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick

TOO_HIGH = (*BLOWS_UP, *STANDS_STILL, "dead-layer", "dead-units", "saturated-units", "constant-output")
TOO_LOW = ("update-ratio-low", "unchanged-weights", *STANDS_STILL)


@sick("learning-rate-high", also=TOO_HIGH)
def mlp_with_sgd_at_ten(zoo: Zoo) -> None:
    """Plain SGD at lr 10 on a classifier that wants 0.1."""
    inputs, labels = blobs(1000, features=20, classes=5)
    model = perceptron(20, 64, 64, 5)
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=150), functional.cross_entropy)


@sick("learning-rate-high", also=TOO_HIGH)
def mlp_with_adam_at_one(zoo: Zoo) -> None:
    """Adam at lr 1: every weight moves by one in each step."""
    inputs, labels = digits()
    model = perceptron(64, 64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=150),
        functional.cross_entropy,
    )


@sick("learning-rate-high", also=TOO_HIGH)
def cnn_with_momentum_at_two(zoo: Zoo) -> None:
    """A convolutional net, SGD with momentum, lr 2."""
    inputs, labels = shapes(600)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(144, 4),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0, momentum=0.9)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=120), nn.CrossEntropyLoss())


@sick("learning-rate-high", also=TOO_HIGH)
def regression_just_beyond_stability(zoo: Zoo) -> None:
    """Linear regression, SGD at a little more than what the curvature allows."""
    inputs, targets = regression(500, features=10)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.2)
    fit(zoo, model, optimizer, batches(inputs, targets, size=100, steps=200), nn.MSELoss())


@sick("learning-rate-zero", also=TOO_LOW)
def mlp_at_rate_zero(zoo: Zoo) -> None:
    """lr=0.0, from a mistyped configuration."""
    inputs, labels = blobs(600, features=12, classes=3)
    model = perceptron(12, 32, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, momentum=0.9)
    fit(zoo, model, optimizer, batches(inputs, labels, size=32, steps=120), functional.cross_entropy)


@sick("learning-rate-zero", also=TOO_LOW)
def cnn_whose_schedule_multiplies_by_zero(zoo: Zoo) -> None:
    """A warm-up with integer division: step // 500 is 0 for all of this training."""
    inputs, labels = shapes(400)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step // 500))
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=32, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@sick(
    "learning-rate-zero",
    also=TOO_LOW,
    from_step=10,
    slowly="The rate fades, and many a schedule ends so: only the steps that follow show that it did not.",
)
def epochs_schedule_stepped_in_each_batch(zoo: Zoo) -> None:
    """ExponentialLR(0.3), meant for epochs, is stepped after each batch: soon nothing is left."""
    inputs, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=64, steps=200):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)


@sick("update-ratio-low", also=TOO_LOW)
def mlp_at_a_hundred_millionth(zoo: Zoo) -> None:
    """Adam at 1e-8, which was meant to be its epsilon."""
    inputs, labels = digits()
    model = perceptron(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-8)
    fit(
        zoo,
        model,
        optimizer,
        batches(inputs.flatten(1), labels, size=64, steps=200),
        functional.cross_entropy,
    )


@sick("update-ratio-low", also=TOO_LOW)
def regression_hardly_moves(zoo: Zoo) -> None:
    """SGD at 1e-6 on unit data."""
    inputs, targets = regression(500, features=8)
    model = perceptron(8, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=200), functional.mse_loss)


@sick("update-ratio-high", also=("learning-rate-high", *TOO_HIGH))
def rmsprop_at_a_half(zoo: Zoo) -> None:
    """RMSprop at 0.5: each step is larger than the weights themselves."""
    inputs, targets = regression(600, features=8)
    model = perceptron(8, 48, 48, 1)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.5)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=150), functional.mse_loss)


@sick("loss-oscillating", also=("learning-rate-high", *TOO_HIGH))
def absolute_error_hops_over_its_valley(zoo: Zoo) -> None:
    """The gradient of an absolute error does not get smaller: at lr 2 the weights hop to and fro for ever."""
    inputs, targets = regression(400, features=4)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    fit(zoo, model, optimizer, batches(inputs, targets, size=100, steps=200), nn.L1Loss())


@sick(
    "loss-plateau",
    also=("update-ratio-low", "learning-rate-zero", "unchanged-weights", "not-learning"),
    from_step=100,
)
def plateau_scheduler_on_single_batches(zoo: Zoo) -> None:
    """ReduceLROnPlateau on the noisy loss of single batches: the rate is gone before the work is done."""
    inputs, labels = digits()
    model = perceptron(64, 32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=6)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=16, steps=300):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step(loss.item())
        monitor.step(loss=loss)


@sick(
    "diverging-loss",
    also=("learning-rate-high", "exploding-gradients", "weight-growth", "update-ratio-high"),
    from_step=100,
)
def rate_raised_by_mistake(zoo: Zoo) -> None:
    """A milestone multiplies the rate by 30 instead of dividing it."""
    inputs, targets = regression(600, features=8)
    model = perceptron(8, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[100], gamma=30)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=50, steps=220):
        loss = functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)
