"""Mistakes that no error tells: parameters, gradients, modes and rates that are others than was meant."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from zoo.data import batches, blobs, digits, shapes
from zoo.fit import BLOWS_UP, STANDS_STILL, UNTRAINED, descend, fit, perceptron
from zoo.program import Zoo, sick


@sick("grad-not-cleared", also=BLOWS_UP)
def both_zero_grads_of_the_generator(zoo: Zoo) -> None:
    """A copied line: the generator's gradients are cleared twice, those of the critic never."""
    generator, critic = perceptron(4, 32, 2), perceptron(2, 32, 32, 1, activation=nn.LeakyReLU)
    g_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    d_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.999))
    monitor = zoo.watch({"G": generator, "D": critic}, [g_optimizer, d_optimizer])
    for _ in range(150):
        real = torch.randn(64, 2) * torch.tensor([2.0, 0.5])
        fake = generator(torch.randn(64, 4))
        g_optimizer.zero_grad()
        d_loss = (functional.softplus(-critic(real)) + functional.softplus(critic(fake.detach()))).mean()
        d_loss.backward()
        d_optimizer.step()
        g_optimizer.zero_grad()
        g_loss = functional.softplus(-critic(fake)).mean()
        g_loss.backward()
        g_optimizer.step()
        monitor.step(loss=g_loss, d_loss=d_loss)


class Sizing(nn.Module):
    """Finds out how many features there are when the first batch comes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3, 2), nn.ReLU(), nn.Flatten())
        self.head: nn.Linear | None = None

    def forward(self, x: Tensor) -> Tensor:
        features = self.body(x)
        if self.head is None:
            self.head = nn.Linear(features.shape[1], 4)
        result: Tensor = self.head(features)
        return result


@sick("not-optimized", also=UNTRAINED)
def head_made_in_the_first_forward(zoo: Zoo) -> None:
    """The last layer is made in forward(), when the optimizer has taken its parameters long ago."""
    pictures, labels = shapes(600)
    model = Sizing()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(pictures, labels, size=32, steps=120), functional.cross_entropy)


class Directions(nn.Module):
    """Compares features with one direction a class."""

    def __init__(self) -> None:
        super().__init__()
        self.body = perceptron(64, 48, 24)
        self.directions = nn.Parameter(torch.randn(10, 24))

    def forward(self, x: Tensor) -> Tensor:
        self.directions = nn.Parameter(functional.normalize(self.directions, dim=1))
        return 10 * functional.normalize(self.body(x), dim=1) @ self.directions.T


@sick("not-optimized", also=UNTRAINED)
def weight_normalised_into_a_new_parameter(zoo: Zoo) -> None:
    """nn.Parameter(normalize(…)) in forward(): the optimizer still has the very first one."""
    pictures, labels = digits()
    model = Directions()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    feed = batches(pictures.flatten(1), labels, size=64, steps=120)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@sick("not-optimized", also=("unchanged-weights", "frozen-weights"), from_step=60)
def thawed_after_the_optimizer_was_made(zoo: Zoo) -> None:
    """The optimizer was given what needed a gradient then; the body is thawed later, and nobody moves it."""
    pictures, labels = digits()
    inputs = pictures.flatten(1)
    body = perceptron(64, 48, 32)
    old = nn.Sequential(body, nn.ReLU(), nn.Linear(32, 2))
    before = torch.optim.Adam(old.parameters(), lr=3e-3)
    for x, y in batches(inputs, labels % 2, size=64, steps=120):
        before.zero_grad()
        functional.cross_entropy(old(x), y).backward()
        before.step()
    model = nn.Sequential(body.requires_grad_(False), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam((each for each in model.parameters() if each.requires_grad), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs, labels, size=64, steps=200)):
        if step == 60:
            model.requires_grad_(True)
        loss = functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@sick("zero-gradients", also=("unchanged-weights", "vanishing-gradients", "no-gradient"))
def rounded_code_in_the_middle(zoo: Zoo) -> None:
    """torch.round() between encoder and decoder: its slope is 0 everywhere, and the encoder stays random."""
    encoder, decoder = perceptron(64, 48, 12), perceptron(12, 48, 64)
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def loss_of(x: Tensor) -> Tensor:
        code = torch.round(3 * torch.tanh(encoder(x)))
        return functional.mse_loss(decoder(code), x)

    descend(zoo, model, optimizer, batches(digits()[0].flatten(1), size=64, steps=150), loss_of)


@sick("update-ratio-low", also=("unchanged-weights", *STANDS_STILL))
def lambda_returns_the_rate_itself(zoo: Zoo) -> None:
    """LambdaLR wants a factor and is given the rate: a thousandth of a thousandth."""
    inputs, labels = blobs(800, features=16, classes=6, spread=0.7)
    model = perceptron(16, 48, 6)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1e-3 * 0.9 ** (step // 50))
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=50, steps=180):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        monitor.step(loss=loss)


class Sparing(nn.Module):
    """Saves memory where most of it goes: in the first layers."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU(), nn.Flatten()
        )
        self.head = perceptron(128, 32, 4)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(checkpoint(self.features, x, use_reentrant=True))
        return result


@sick("no-gradient", also=("unchanged-weights", "frozen-weights"))
def checkpointed_block_without_gradient(zoo: Zoo) -> None:
    """Reentrant checkpointing of the first layers: pictures need no gradient, and so the layers get none."""
    pictures, labels = shapes(600)
    model = Sparing()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(zoo, model, optimizer, batches(pictures, labels, size=32, steps=120), functional.cross_entropy)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(20, 64), nn.Linear(64, 64), nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.dropout(functional.relu(self.first(x)), 0.5)
        x = functional.dropout(functional.relu(self.second(x)), 0.5)
        result: Tensor = self.last(x)
        return result


@sick("train-mode-evaluating", from_step=20)
def functional_dropout_never_off(zoo: Zoo) -> None:
    """functional.dropout(x, 0.5) without training=self.training: eval() does not switch it off."""
    inputs, labels = blobs(700, features=20, classes=5)
    model = Dropping()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(inputs[:500], labels[:500], size=50, steps=160), start=1):
        model.train()
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        if step % 20 == 0:
            model.eval()
            with torch.no_grad():
                monitor.log(val_loss=functional.cross_entropy(model(inputs[500:]), labels[500:]))


@sick("input-repeated-batch")
def seed_set_in_every_step(zoo: Zoo) -> None:
    """manual_seed() in the function that makes a step: the rows drawn at random are the same each time."""
    inputs, labels = digits()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of() -> Tensor:
        torch.manual_seed(zoo.seed)
        rows = torch.randint(len(inputs), (64,))
        return functional.cross_entropy(model(inputs[rows]), labels[rows])

    descend(zoo, model, optimizer, [()] * 160, loss_of)
