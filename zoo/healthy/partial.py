"""Several networks, of which one is watched, and parameters that nobody is to train."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression
from zoo.fit import descend, fit, perceptron
from zoo.program import Zoo, healthy


@healthy
def only_the_encoder_is_watched(zoo: Zoo) -> None:
    """An autoencoder in two parts with an optimizer each."""
    inputs = digits()[0].flatten(1)
    encoder, decoder = perceptron(64, 32, 8), perceptron(8, 32, 64)
    optimizers = [torch.optim.Adam(part.parameters(), lr=3e-3) for part in (encoder, decoder)]
    monitor = zoo.watch(encoder, optimizers[0])
    for (x,) in batches(inputs, size=64, steps=150):
        loss = functional.mse_loss(decoder(encoder(x)), x)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        monitor.step(loss=loss)


@healthy
def head_on_features_with_gradients(zoo: Zoo) -> None:
    """The backbone was trained before; nobody has frozen it, and no optimizer has it."""
    inputs, labels = digits()
    inputs = inputs.flatten(1)
    backbone, old = perceptron(64, 64, 32), nn.Linear(32, 10)
    optimizer = torch.optim.Adam([*backbone.parameters(), *old.parameters()], lr=5e-3)
    for x, y in batches(inputs, labels, size=64, steps=250):
        optimizer.zero_grad()
        functional.cross_entropy(old(backbone(x).relu()), y).backward()
        optimizer.step()
    head = nn.Linear(32, 2)
    optimizer = torch.optim.Adam(head.parameters(), lr=5e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(head(backbone(x).relu()), y)

    descend(zoo, head, optimizer, batches(inputs, labels % 2, size=64, steps=150), loss_of)


@healthy
def picture_painted_by_its_gradient(zoo: Zoo) -> None:
    """Activation maximisation: what is trained is the picture, through a network that stays."""
    inputs, labels = digits()
    network = perceptron(64, 64, 10)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for x, y in batches(inputs.flatten(1), labels, size=64, steps=200):
        optimizer.zero_grad()
        functional.cross_entropy(network(x), y).backward()
        optimizer.step()

    class Painter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.picture = nn.Parameter(0.1 * torch.rand(10, 64))

        def forward(self) -> Tensor:
            return self.picture.clamp(0, 1)

    painter = Painter()
    optimizer = torch.optim.Adam(painter.parameters(), lr=0.02)

    def loss_of() -> Tensor:
        loss: Tensor = (
            functional.cross_entropy(network(painter()), torch.arange(10)) + 0.01 * painter().mean()
        )
        return loss

    descend(zoo, painter, optimizer, [()] * 120, loss_of)


@healthy
def generator_watched_alone(zoo: Zoo) -> None:
    """A GAN of which only the generator is watched; the critic learns from the same fakes, not detached."""
    generator, critic = perceptron(4, 32, 2), perceptron(2, 32, 1)
    by_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    by_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    monitor = zoo.watch(generator, by_generator)
    for _ in range(200):
        angles = 6.28 * torch.rand(64)
        real = torch.stack([angles.cos(), angles.sin()], 1) + 0.05 * torch.randn(64, 2)
        fakes = generator(torch.randn(64, 4))
        by_critic.zero_grad()
        (functional.softplus(-critic(real)) + functional.softplus(critic(fakes))).mean().backward()
        by_critic.step()
        by_generator.zero_grad()
        loss = functional.softplus(-critic(generator(torch.randn(64, 4)))).mean()
        loss.backward()
        by_generator.step()
        monitor.step(loss=loss)


@healthy
def curious_about_a_random_network(zoo: Zoo) -> None:
    """Random network distillation: a predictor learns what a random network says, detached from nothing."""
    model, target = perceptron(8, 64, 8), perceptron(8, 32, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_of() -> Tensor:
        states = torch.randn(64, 8)
        error: Tensor = model(states) - target(states)
        return error.square().mean()

    descend(zoo, model, optimizer, [()] * 200, loss_of)


@healthy
def teacher_kept_in_a_list(zoo: Zoo) -> None:
    """A list hides the slow copy from parameters(), on purpose; its targets have no gradient."""

    class Student(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = perceptron(16, 32, 16)
            self.slow = [copy.deepcopy(self.body)]

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                wanted = self.slow[0](x + 0.1 * torch.randn_like(x))
            return self.body(x), wanted

    inputs, _ = blobs(800, features=16, classes=8)
    model = Student()
    head = nn.Linear(16, 16)
    optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=150):
        found, wanted = model(x)
        loss = functional.mse_loss(head(found), x) + 0.1 * functional.mse_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for own, fast in zip(model.slow[0].parameters(), model.body.parameters(), strict=True):
            own.data.lerp_(fast.data, 0.05)
        monitor.step(loss=loss)


@healthy
def learned_from_one_gradient_step(zoo: Zoo) -> None:
    """MAML: the loss after a step on another task, through functional_call and a gradient of a gradient."""
    model = perceptron(1, 32, 1, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_of() -> Tensor:
        losses = []
        for _ in range(4):
            amplitude, phase = 0.5 + torch.rand(1), 3.14 * torch.rand(1)
            x = 6 * torch.rand(20, 1) - 3
            y = amplitude * torch.sin(x + phase)
            weights: dict[str, Tensor] = dict(model.named_parameters())
            inner = functional.mse_loss(torch.func.functional_call(model, weights, x[:10]), y[:10])
            slopes = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
            moved = {
                name: own - 0.05 * slope for (name, own), slope in zip(weights.items(), slopes, strict=True)
            }
            losses.append(functional.mse_loss(torch.func.functional_call(model, moved, x[10:]), y[10:]))
        return torch.stack(losses).mean()

    descend(zoo, model, optimizer, [()] * 120, loss_of)


@healthy
def layers_in_a_list_and_in_the_optimizer(zoo: Zoo) -> None:
    """A plain list of layers, whose parameters are handed over by hand."""

    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(8, 32), nn.Linear(32, 32)]
            self.out = nn.Linear(32, 1)

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = functional.relu(layer(x))
            result: Tensor = self.out(x)
            return result

    inputs, targets = regression(800, features=8)
    model = Stack()
    everything = [each for part in (*model.layers, model.out) for each in part.parameters()]
    optimizer = torch.optim.Adam(everything, lr=2e-3)
    fit(zoo, model, optimizer, batches(inputs, targets, size=50, steps=150), functional.mse_loss)
