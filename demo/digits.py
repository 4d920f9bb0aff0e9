"""A healthy training: 1797 pictures of digits, 8 x 8 pixels, ten classes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tb_netdebug as nd

BATCH = 256
# A line a batch is what `console=True` is for, but here a few of them are enough.
LINES = 12


def batches() -> DataLoader[tuple[torch.Tensor, ...]]:
    digits = load_digits()
    pictures = torch.tensor(digits.data, dtype=torch.float32) / 16.0
    return DataLoader(TensorDataset(pictures, torch.tensor(digits.target)), batch_size=BATCH, shuffle=True)


def train(logdir: Path, *, steps: int) -> Path:
    """The folder of the run."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with nd.watch(model, optimizer, logdir=logdir) as monitor:
        for step, (pictures, labels) in enumerate(endless(batches())):
            if step == steps:
                break
            scores = model(pictures)
            loss = nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accuracy = (scores.argmax(1) == labels).float().mean()
            monitor.step(loss=loss, accuracy=accuracy)
            if step % max(1, steps // LINES) == 0:
                print(f"  batch {step:>5}   loss {loss.item():7.4f}   accuracy {accuracy.item():5.1%}")
        print(f"  watching cost {monitor.overhead:.1%} of the training's own time so far")
        return monitor.run_dir


def endless(loader: DataLoader[tuple[torch.Tensor, ...]]) -> Iterator[tuple[torch.Tensor, ...]]:
    while True:
        yield from loader
