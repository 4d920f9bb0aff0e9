"""Losses over pairs, queues and teachers, and inputs and targets of unusual size."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, regression
from zoo.fit import descend, fit, perceptron
from zoo.program import Zoo, healthy


@healthy
def queue_of_negatives(zoo: Zoo) -> None:
    """MoCo: the right answer is always the first of 257, the keys come from a slow copy and a queue."""
    inputs, _ = blobs(1000, features=16, classes=30)
    model = perceptron(16, 64, 16)
    slow = copy.deepcopy(model).requires_grad_(False)
    queue = functional.normalize(torch.randn(256, 16), dim=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=200):
        query = functional.normalize(model(x + 0.2 * torch.randn_like(x)), dim=1)
        with torch.no_grad():
            for own, fast in zip(slow.parameters(), model.parameters(), strict=True):
                own.lerp_(fast, 0.05)
            key = functional.normalize(slow(x + 0.2 * torch.randn_like(x)), dim=1)
        scores = torch.cat([(query * key).sum(1, keepdim=True), query @ queue.T], 1) / 0.2
        loss = functional.cross_entropy(scores, torch.zeros(len(x), dtype=torch.long))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        queue = torch.cat([key, queue])[:256]
        monitor.step(loss=loss)


@healthy
def supervised_contrast(zoo: Zoo) -> None:
    """Each digit is pulled to all of its class in the batch: the loss ends far above zero."""
    inputs, labels = digits()
    model = perceptron(64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        z = functional.normalize(model(x), dim=1)
        scores = z @ z.T / 0.2
        others = ~torch.eye(len(x), dtype=torch.bool)
        alike = (y[:, None] == y[None]) & others
        logs = scores - scores.exp().mul(others).sum(1, keepdim=True).log()
        return -((logs * alike).sum(1) / alike.sum(1).clamp(min=1)).mean()

    descend(zoo, model, optimizer, batches(inputs.flatten(1), labels, size=64, steps=200), loss_of)


@healthy
def hardest_negative_of_the_batch(zoo: Zoo) -> None:
    """Triplets with the hardest negative: the loss hangs around the margin before it falls."""
    inputs, labels = digits()
    model = perceptron(64, 64, 16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        z = functional.normalize(model(x), dim=1)
        distances = torch.cdist(z, z)
        same = y[:, None] == y[None]
        farthest = distances.masked_fill(~same, 0.0).max(1).values
        nearest = distances.masked_fill(same, 9.0).min(1).values
        return functional.relu(farthest - nearest + 0.3).mean()

    descend(zoo, model, optimizer, batches(inputs.flatten(1), labels, size=64, steps=250), loss_of)


@healthy
def cosine_pairs_yes_and_no(zoo: Zoo) -> None:
    """CosineEmbeddingLoss on pairs, half of which belong together."""
    inputs, labels = blobs(800, features=12, classes=6)
    model = perceptron(12, 32, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CosineEmbeddingLoss(margin=0.2)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        same = torch.where(y[:64] == y[64:], 1.0, -1.0)
        loss: Tensor = criterion(model(x[:64]), model(x[64:]), same)
        return loss

    descend(zoo, model, optimizer, batches(inputs, labels, size=128, steps=160), loss_of)


@healthy
def negative_cosine_with_stopped_gradient(zoo: Zoo) -> None:
    """SimSiam: the loss is between -1 and 0, and one branch is detached."""
    inputs, _ = blobs(1000, features=16, classes=10)
    model = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    predictor = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))
    both = nn.ModuleDict({"encoder": model, "predictor": predictor})
    optimizer = torch.optim.SGD(both.parameters(), lr=0.05, momentum=0.9)

    def loss_of(x: Tensor) -> Tensor:
        one, two = (model(x + 0.3 * torch.randn_like(x)) for _ in range(2))
        return -0.5 * (
            functional.cosine_similarity(predictor(one), two.detach()).mean()
            + functional.cosine_similarity(predictor(two), one.detach()).mean()
        )

    descend(zoo, both, optimizer, batches(inputs, size=64, steps=160), loss_of)


@healthy
def trained_against_its_own_attack(zoo: Zoo) -> None:
    """Adversarial training: three steps of an attack on the inputs before each step of the network."""
    inputs, labels = digits()
    model = perceptron(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        noise = torch.zeros_like(x, requires_grad=True)
        for _ in range(3):
            (slope,) = torch.autograd.grad(functional.cross_entropy(model(x + noise), y), noise)
            noise = (noise + 0.02 * slope.sign()).clamp(-0.05, 0.05).detach().requires_grad_()
        return functional.cross_entropy(model(x + noise.detach()), y)

    descend(zoo, model, optimizer, batches(inputs.flatten(1), labels, size=64, steps=150), loss_of)


@healthy
def softened_teacher(zoo: Zoo) -> None:
    """Distillation at temperature 4: a KL divergence times 16 and a little cross entropy."""
    inputs, labels = digits()
    inputs = inputs.flatten(1)
    teacher = perceptron(64, 96, 10)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for x, y in batches(inputs, labels, size=64, steps=150):
        optimizer.zero_grad()
        functional.cross_entropy(teacher(x), y).backward()
        optimizer.step()
    teacher.eval()
    student = perceptron(64, 24, 10)
    optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = functional.softmax(teacher(x) / 4, 1)
        scores = student(x)
        soft = functional.kl_div(functional.log_softmax(scores / 4, 1), wanted, reduction="batchmean")
        return 16 * soft + 0.1 * functional.cross_entropy(scores, y)

    descend(zoo, student, optimizer, batches(inputs, labels, size=64, steps=150), loss_of)


@healthy
def pictures_as_bytes_under_adam(zoo: Zoo) -> None:
    """Pixels from 0 to 255 as they are stored: the first loss is huge, and Adam copes."""
    inputs, labels = digits()
    model = perceptron(64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    feed = batches(inputs.flatten(1) * 255, labels, size=64, steps=200)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@healthy
def convolutions_on_bytes_under_adam(zoo: Zoo) -> None:
    """The same with a convolutional network and a small rate."""
    pictures, labels = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    feed = batches(pictures * 255, labels, size=64, steps=200)
    fit(zoo, model, optimizer, feed, functional.cross_entropy)


@healthy
def salaries_in_full(zoo: Zoo) -> None:
    """Targets around 50 000 with a bias that starts at their mean; absolute error, Adam at a high rate."""
    inputs, targets = regression(800, features=8)
    salaries = 50_000 + 12_000 * targets
    last = nn.Linear(64, 1)
    with torch.no_grad():
        last.bias.fill_(float(salaries.mean()))
        last.weight.mul_(1000)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), last)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    fit(zoo, model, optimizer, batches(inputs, salaries, size=64, steps=250), nn.L1Loss())


@healthy
def all_pairs_ranked(zoo: Zoo) -> None:
    """RankNet: every document of a query against every other, on purpose."""
    inputs, targets = regression(900, features=8)
    model = perceptron(8, 32, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_of(x: Tensor, y: Tensor) -> Tensor:
        scores: Tensor = model(x)
        better = y > y.T
        return functional.softplus(scores.T - scores)[better].mean()

    descend(zoo, model, optimizer, batches(inputs, targets, size=30, steps=160), loss_of)
