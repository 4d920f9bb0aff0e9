"""Convolutional networks on small pictures."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from zoo.data import batches, digits, shapes
from zoo.program import Zoo, healthy


class SmallCNN(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc1 = nn.LazyLinear(32)
        self.fc2 = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc1(x.flatten(1)))
        return functional.log_softmax(self.fc2(x), dim=1)


@healthy
def cnn_with_nll(zoo: Zoo) -> None:
    """The classic example: log-softmax in the model, NLL as the loss, SGD with momentum, step decay."""
    inputs, labels = digits()
    model = SmallCNN(10)
    model(inputs[:2])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
    monitor = zoo.watch(model, optimizer)
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
    for _ in range(4):
        model.train()
        for data, target in loader:
            optimizer.zero_grad()
            output = model(data)
            loss = functional.nll_loss(output, target)
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        scheduler.step()


@healthy
def cnn_with_batch_norm(zoo: Zoo) -> None:
    """Convolution, batch norm, ReLU, three times; evaluated after each epoch."""
    inputs, labels = shapes(960)
    train, test = slice(0, 768), slice(768, 960)
    model = nn.Sequential(
        *(layer for i, o in ((1, 8), (8, 16), (16, 16)) for layer in
          (nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(6):
        model.train()
        for x, y in batches(inputs[train], labels[train], size=32, steps=24):
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        model.eval()
        with torch.no_grad():
            output = model(inputs[test])
        accuracy = (output.argmax(1) == labels[test]).float().mean()
        monitor.log(val_loss=functional.cross_entropy(output, labels[test]), val_accuracy=accuracy)


@healthy
def segmentation_by_pixel(zoo: Zoo) -> None:
    """Each pixel is bar or background: a small U-net without the U."""
    pictures, _ = shapes(320)
    masks = (functional.avg_pool2d(pictures, 3, stride=1, padding=1) > 0.45).long().squeeze(1)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 2, 1),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(pictures, masks, size=16, steps=120):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def digits_with_tanh_and_sgd(zoo: Zoo) -> None:
    """LeNet as it was: tanh, average pooling, plain SGD, inputs from -1 to 1."""
    inputs, labels = digits()
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 3), nn.Tanh(),
        nn.Flatten(), nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(2 * inputs - 1, labels, size=32, steps=200):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
