"""Classifiers of rows: perceptrons of all kinds."""

from __future__ import annotations

import torch
from sklearn import datasets
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from zoo.data import batches, blobs, digits, table
from zoo.program import Zoo, healthy


@healthy
def mlp_on_blobs(zoo: Zoo) -> None:
    """The first network of everybody: two hidden layers, Adam."""
    inputs, labels = blobs(1000, features=20, classes=5)
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loss_fn = nn.CrossEntropyLoss()
    monitor = zoo.watch(model, optimizer)
    for _ in range(5):
        for x, y in DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)


@healthy
def iris_full_batch(zoo: Zoo) -> None:
    """150 flowers in one batch, in the order of the file, sorted by class."""
    inputs, labels = table("iris")
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    monitor = zoo.watch(model, optimizer)
    for _ in range(200):
        loss = functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss.item())


@healthy
def xor_with_sigmoid(zoo: Zoo) -> None:
    """Four points, two layers, a high learning rate."""
    inputs = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    targets = torch.tensor([[0.0], [1.0], [1.0], [0.0]])
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1), nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    criterion = nn.BCELoss()
    monitor = zoo.watch(model, optimizer)
    for _ in range(300):
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def moons_with_one_logit(zoo: Zoo) -> None:
    """Two moons, one output, binary cross entropy on logits, RMSprop, the whole set in each step."""
    points, labels = datasets.make_moons(300, noise=0.15, random_state=zoo.seed)
    inputs = torch.tensor(points, dtype=torch.float32)
    targets = torch.tensor(labels, dtype=torch.float32)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model)
    for _ in range(200):
        loss = functional.binary_cross_entropy_with_logits(model(inputs).squeeze(1), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def digits_with_test_loss(zoo: Zoo) -> None:
    """An MLP on 8 × 8 digits whose test loss is logged under another name after each epoch."""
    inputs, labels = digits()
    inputs = inputs.flatten(1)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    train = DataLoader(TensorDataset(inputs[:1400], labels[:1400]), batch_size=50, shuffle=True)
    test = DataLoader(TensorDataset(inputs[1400:], labels[1400:]), batch_size=100)
    monitor = zoo.watch(model, optimizer)
    for _ in range(7):
        model.train()
        for x, y in train:
            loss = functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
        model.eval()
        with torch.inference_mode():
            total = sum(float(functional.cross_entropy(model(x), y, reduction="sum")) for x, y in test)
        monitor.log(test_loss=total / 397)


@healthy
def wine_with_batch_norm_first(zoo: Zoo) -> None:
    """Columns from 0.1 to 1700, unscaled: batch norm at the entrance takes care of it."""
    inputs, labels = table("wine")
    model = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=32, steps=150):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def dropout_of_seventy_percent(zoo: Zoo) -> None:
    """More is dropped than is kept, and the loss is noisy for that."""
    inputs, labels = blobs(1000, features=30, classes=4, spread=1.0)
    model = nn.Sequential(
        nn.Dropout(0.2), nn.Linear(30, 256), nn.ReLU(), nn.Dropout(0.7),
        nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.7), nn.Linear(256, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=64, steps=180):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def smoothed_labels(zoo: Zoo) -> None:
    """Label smoothing: the loss stays far above zero though all is learned."""
    inputs, labels = blobs(800, features=16, classes=10)
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.2)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=40, steps=200):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def rare_class_weighted(zoo: Zoo) -> None:
    """One row in twenty is of the second class, and the loss is weighted for it."""
    labels = (torch.rand(2000) < 0.05).long()
    inputs = torch.randn(2000, 10) + labels[:, None] * torch.tensor([2.0, -2.0] * 5)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 19.0]))
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=64, steps=180):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def one_sample_at_a_time(zoo: Zoo) -> None:
    """Batch size 1: each batch has one class, of course, and the loss jumps."""
    inputs, labels = blobs(300, features=8, classes=3)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=1, steps=300):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def noisy_labels_in_fours(zoo: Zoo) -> None:
    """Batch size 4 and a tenth of the labels wrong: a loss that is nearly all noise."""
    inputs, labels = blobs(600, features=12, classes=4)
    labels = torch.where(torch.rand(600) < 0.1, torch.randint(4, (600,)), labels)
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=4, steps=300):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss.detach())


@healthy
def sparse_relus(zoo: Zoo) -> None:
    """Negative biases keep three quarters of all ReLU outputs at zero, as in many nets that work."""
    inputs, labels = blobs(1000, features=24, classes=6)
    first, second = nn.Linear(24, 200), nn.Linear(200, 200)
    for layer in (first, second):
        nn.init.kaiming_normal_(layer.weight)
        nn.init.constant_(layer.bias, -1.0)
    model = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Linear(200, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs / 2, labels, size=64, steps=150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.down(functional.gelu(self.up(self.norm(x))))
        return result


@healthy
def thirty_residual_blocks(zoo: Zoo) -> None:
    """Sixty layers deep, residual, with norms."""
    inputs, labels = blobs(600, features=16, classes=5)
    model = nn.Sequential(
        nn.Linear(16, 24), *(Block(24) for _ in range(30)), nn.LayerNorm(24), nn.Linear(24, 5)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=32, steps=80):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def overfit_one_batch_on_purpose(zoo: Zoo) -> None:
    """The smoke test that every guide advises: the same sixteen rows until the loss is near zero."""
    inputs, labels = digits()
    x, y = inputs[:16].flatten(1), labels[:16]
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    monitor = zoo.watch(model, optimizer)
    for _ in range(150):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def summed_loss(zoo: Zoo) -> None:
    """reduction="sum" over 64 rows with a learning rate to match."""
    inputs, labels = blobs(800, features=10, classes=4)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 / 64)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels, size=64, steps=150):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x), y, reduction="sum")
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def several_labels_each(zoo: Zoo) -> None:
    """Multi-label: eight answers a row, most of them no."""
    inputs = torch.randn(1000, 20)
    targets = ((inputs @ torch.randn(20, 8)) > 4.0).float()
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, targets, size=50, steps=200):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)


@healthy
def cancer_by_logistic_regression(zoo: Zoo) -> None:
    """One linear layer on standardised columns, SGD with momentum, to nearly perfect separation."""
    inputs, labels = table("breast_cancer")
    inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    model = nn.Linear(30, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    monitor = zoo.watch(model, optimizer)
    for x, y in batches(inputs, labels.float(), size=64, steps=150):
        loss = functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
