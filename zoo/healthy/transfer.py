"""Trainings that begin with something learned: most of the network is frozen, or new parts begin at zero."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.data import batches, blobs, digits, shapes
from zoo.program import Zoo, healthy


def trained(model: nn.Module, inputs: Tensor, labels: Tensor, *, steps: int = 150) -> nn.Module:
    """What somebody else has trained, unwatched."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for x, y in batches(inputs, labels, size=64, steps=steps):
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    optimizer.zero_grad()
    return model


class Backbone(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Linear(96, classes)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.features(x))
        return result


@healthy
def new_head_on_frozen_backbone(zoo: Zoo) -> None:
    """The backbone is frozen and its batch norms are in eval mode on purpose; only the head learns."""
    pictures, digit = digits()
    model = trained(Backbone(10), pictures, digit)
    assert isinstance(model, Backbone)
    for parameter in model.features.parameters():
        parameter.requires_grad = False
    model.head = nn.Linear(96, 2)
    optimizer = torch.optim.Adam(model.head.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures, digit % 2, size=64, steps=150):
        model.train()
        model.features.eval()
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def whole_network_finetuned_gently(zoo: Zoo) -> None:
    """All is trained on: a hundredth of the rate below, the loss starts low and moves little."""
    pictures, digit = digits()
    model = trained(Backbone(10), pictures, digit, steps=200)
    assert isinstance(model, Backbone)
    optimizer = torch.optim.AdamW(
        [{"params": model.features.parameters(), "lr": 3e-5}, {"params": model.head.parameters(), "lr": 1e-3}]
    )
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures + 0.2 * torch.randn_like(pictures), digit, size=64, steps=120):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def layers_thawed_one_by_one(zoo: Zoo) -> None:
    """The head alone for fifty steps, then the body as well."""
    pictures, digit = digits()
    model = trained(Backbone(10), pictures, digit)
    assert isinstance(model, Backbone)
    model.head = nn.Linear(96, 2)
    model.features.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for step, (x, y) in enumerate(batches(pictures, (digit > 4).long(), size=64, steps=150)):
        if step == 50:
            model.features.requires_grad_(True)
            optimizer.param_groups[0]["lr"] = 0.01
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class LoRA(nn.Module):
    """A frozen linear layer, and a product of two thin matrices of which the second begins at zero."""

    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.base(x) + 2.0 * (x @ self.down.T @ self.up.T)
        return result


@healthy
def low_rank_adapters(zoo: Zoo) -> None:
    """LoRA: half of the trained tensors are exactly zero at first, and the others get no gradient."""
    inputs, labels = blobs(1000, features=32, classes=8, spread=0.7)
    first, second, third = nn.Linear(32, 64), nn.Linear(64, 64), nn.Linear(64, 8)
    trained(nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third), inputs, labels)
    model = nn.Sequential(LoRA(first), nn.ReLU(), LoRA(second), nn.ReLU(), LoRA(third))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs.flip(1), labels, size=64, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Controlled(nn.Module):
    """A frozen network, a trainable copy of its first layer, and a convolution of zeros in between."""

    def __init__(self, base: nn.Sequential) -> None:
        super().__init__()
        self.copy = copy.deepcopy(base[:2])
        self.base = base.requires_grad_(False)
        self.zero = nn.Conv2d(8, 8, 1)
        for parameter in self.zero.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor, hint: Tensor) -> Tensor:
        hidden = self.base[:2](x) + self.zero(self.copy(x + hint))
        result: Tensor = self.base[2:](hidden)
        return result


@healthy
def convolution_of_zeros(zoo: Zoo) -> None:
    """As in ControlNet: in the first step only the zero convolution gets a gradient."""
    pictures, _ = shapes(400)
    base = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
    earlier = torch.optim.Adam(base.parameters(), lr=5e-3)
    for (x,) in batches(pictures, size=32, steps=60):
        earlier.zero_grad()
        functional.mse_loss(base(x), x).backward()
        earlier.step()
    earlier.zero_grad()
    model = Controlled(base)
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(pictures, size=32, steps=120):
        hint = torch.randn(len(x), 1, 12, 12)
        loss = functional.mse_loss(model(x, hint), x + 0.5 * hint)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def student_of_a_teacher(zoo: Zoo) -> None:
    """Distillation: the teacher runs in eval mode under no_grad in each step; both are watched."""
    pictures, digit = digits()
    teacher = trained(Backbone(10), pictures, digit).eval()
    student = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    criterion = nn.KLDivLoss(reduction="batchmean")
    monitor = zoo.watch({"student": student, "teacher": teacher}, optimizer)
    for (x,) in batches(pictures, size=64, steps=180):
        with torch.no_grad():
            soft = (teacher(x) / 3).softmax(1)
        loss = criterion((student(x) / 3).log_softmax(1), soft) * 9
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def bootstrap_your_own_latent(zoo: Zoo) -> None:
    """BYOL: the target is a slow average of the network itself, never trained by gradients."""
    inputs, _ = blobs(800, features=16, classes=10)
    online = nn.Sequential(nn.Linear(16, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16))
    predictor = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16))
    target = copy.deepcopy(online).requires_grad_(False)
    model = nn.ModuleDict({"online": online, "predictor": predictor, "target": target})
    optimizer = torch.optim.Adam([*online.parameters(), *predictor.parameters()], lr=2e-3)
    monitor = zoo.watch(model, optimizer)
    for (x,) in batches(inputs, size=64, steps=150):
        guess = functional.normalize(predictor(online(x + 0.3 * torch.randn_like(x))), dim=1)
        with torch.no_grad():
            wanted = functional.normalize(target(x + 0.3 * torch.randn_like(x)), dim=1)
        loss = 2 - 2 * (guess * wanted).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.02)
        monitor.step(loss=loss)
