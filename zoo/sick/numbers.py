"""Values that are not finite, and formats too small for what they hold."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression
from zoo.fit import NOT_FINITE, STANDS_STILL, fit, perceptron
from zoo.program import Zoo, sick


@sick("nonfinite-loss", also=NOT_FINITE)
def log_of_zero_by_hand(zoo: Zoo) -> None:
    """-(y * softmax(x).log()) where a softmax is exactly 0: 0 × -inf is NaN."""
    inputs, labels = blobs(600, features=12, classes=4)
    model = perceptron(12, 32, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=50, steps=100):
        chances = (model(x) * 2000).softmax(1)
        loss = -(functional.one_hot(y, 4) * chances.log()).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("nonfinite-gradient", also=NOT_FINITE)
def root_of_zero(zoo: Zoo) -> None:
    """The distance of a point to itself: sqrt(0) has the loss 0 and an infinite gradient."""
    inputs, _ = blobs(400, features=8, classes=4)
    model = perceptron(8, 24, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=32, steps=80):
        z = model(x)
        distances = ((z[:, None] - z[None]) ** 2).sum(2).sqrt()
        loss = (distances - (x[:, None] - x[None]).norm(dim=2)).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Standardised(nn.Module):
    """Divides by the standard deviation of the batch, without an epsilon."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - x.mean(0)) / x.std(0)


@sick("nonfinite-activation", also=NOT_FINITE)
def division_by_no_spread(zoo: Zoo) -> None:
    """One column is the same in all rows: 0 / 0."""
    inputs, labels = blobs(600, features=12, classes=3)
    inputs[:, 5] = 1.0
    model = nn.Sequential(Standardised(), *perceptron(12, 32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs, labels, size=50, steps=80), functional.cross_entropy)


class Exponential(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.exp()


@sick("nonfinite-activation", also=(*NOT_FINITE, "input-scale"))
def exponential_of_large_inputs(zoo: Zoo) -> None:
    """exp() of unscaled features overflows."""
    inputs, targets = regression(400, features=6)
    model = nn.Sequential(nn.Linear(6, 16), Exponential(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    fit(zoo, model, optimizer, batches(inputs * 300, targets, size=40, steps=80), functional.mse_loss)


class MaskedAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.query, self.key, self.value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        scores = self.query(x) @ self.key(x).transpose(1, 2) / 4.0
        scores = scores.masked_fill((tokens == 0)[:, None, :], float("-inf"))
        attended = scores.softmax(-1) @ self.value(x)
        result: Tensor = self.head(attended.mean(1))
        return result


@sick("nonfinite-activation", also=NOT_FINITE, from_step=30)
def sentence_of_padding_alone(zoo: Zoo) -> None:
    """An empty sentence in the thirtieth batch: a softmax over nothing but -inf is NaN."""
    model = MaskedAttention()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for step in range(100):
        tokens = torch.randint(1, 20, (32, 8))
        if step == 30:
            tokens[3] = 0
        loss = functional.cross_entropy(model(tokens), (tokens[:, 0] > 9).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("nonfinite-input", also=NOT_FINITE, from_step=25)
def missing_values_in_a_table(zoo: Zoo) -> None:
    """An empty cell of the table became NaN, and it comes in batch 25."""
    inputs, targets = regression(2000, features=8)
    model = perceptron(8, 32, 1)
    inputs[25 * 20 + 7, 3] = float("nan")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = ((inputs[i : i + 20], targets[i : i + 20]) for i in range(0, 2000, 20))
    fit(zoo, model, optimizer, feed, functional.mse_loss)


@sick("nonfinite-input", also=NOT_FINITE, from_step=0)
def picture_divided_by_its_maximum(zoo: Zoo) -> None:
    """Each picture is divided by its own maximum, and some pictures are black."""
    pictures, labels = digits()
    pictures[::20] = 0.0
    pictures = pictures / pictures.amax(dim=(1, 2, 3), keepdim=True)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = ((pictures[i : i + 40], labels[i : i + 40]) for i in range(0, 1600, 20))
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("nonfinite-loss", also=("nonfinite-input", *NOT_FINITE), from_step=15)
def log_of_a_price_of_zero(zoo: Zoo) -> None:
    """The logarithm of a target that is 0 is -inf."""
    inputs, targets = regression(1600, features=6)
    prices = targets.exp()
    prices[15 * 20 + 3] = 0.0
    model = perceptron(6, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = ((inputs[i : i + 20], prices[i : i + 20].log()) for i in range(0, 1600, 20))
    fit(zoo, model, optimizer, feed, functional.mse_loss)


@sick("nonfinite-weight", also=NOT_FINITE, from_step=40)
def weight_divided_by_its_norm(zoo: Zoo) -> None:
    """Weights are normalised by hand after the step; a pruned row has the norm 0."""
    inputs, labels = blobs(600, features=12, classes=4)
    first = nn.Linear(12, 32)
    model = nn.Sequential(first, nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs, labels, size=50, steps=100)):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            if step == 40:
                first.weight[5] = 0.0
            first.weight /= first.weight.norm(dim=1, keepdim=True)
        monitor.step(loss=loss)


@sick("nonfinite-activation", also=("precision-headroom", "activation-scale", "input-scale", *NOT_FINITE))
def half_precision_overflows(zoo: Zoo) -> None:
    """A model in float16, whose largest number is 65504, and features in the ten thousands."""
    inputs, targets = regression(400, features=8)
    model = perceptron(8, 32, 1).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    feed = ((x.half(), y.half()) for x, y in batches(inputs * 60000, targets, size=40, steps=80))
    fit(zoo, model, optimizer, feed, functional.mse_loss)


@sick(
    "precision-headroom",
    also=("zero-gradients", "unchanged-weights", "vanishing-gradients", "update-ratio-low", *STANDS_STILL),
)
def half_precision_gradients_vanish(zoo: Zoo) -> None:
    """float16 without a loss scale: most gradients are below 6e-8 and become zero."""
    inputs, targets = regression(400, features=8)
    model = perceptron(8, 64, 64, 64, 1, activation=nn.Tanh).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    feed = ((x.half(), y.half()) for x, y in batches(inputs, targets, size=40, steps=120))
    fit(zoo, model, optimizer, feed, lambda output, y: functional.mse_loss(output, y) * 1e-5)


@sick(
    "loss-scale-overflow",
    also=("nonfinite-gradient", "unchanged-weights", "nonfinite-activation", *STANDS_STILL),
)
def scaler_skips_every_step(zoo: Zoo) -> None:
    """Each gradient holds an Inf, whatever the scale: the scaler skips all steps, and nobody is told."""
    inputs, labels = digits()
    model = perceptron(64, 48, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu")
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flatten(1), labels, size=64, steps=150):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            output = model(x)
            smooth = (output - output.detach()).pow(2).sum(1).sqrt().mean()
            loss = functional.cross_entropy(output, y) + 0.01 * smooth
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        monitor.step(loss=loss)


@sick(
    "loss-scale-overflow",
    also=("nonfinite-gradient", "precision-headroom", "unchanged-weights", *STANDS_STILL),
)
def loss_of_millions_in_mixed_precision(zoo: Zoo) -> None:
    """A loss summed over everything, in float16: the scale falls and falls, and most steps are skipped."""
    inputs, targets = regression(800, features=8)
    model = perceptron(8, 64, 64, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=4)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets * 1e3, size=50, steps=150):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = functional.mse_loss(model(x).float(), y, reduction="sum")
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        monitor.step(loss=loss)
