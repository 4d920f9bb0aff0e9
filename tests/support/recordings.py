"""Runs for the tests of the page, recorded from real trainings of small networks."""

from __future__ import annotations

import math
from pathlib import Path

import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.records.step import StepRecord
from tb_netdebug.writer import EventWriter

STEPS = 60


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))


def train(
    logdir: Path, name: str, *, model: nn.Module | None = None, rate: float = 0.05, steps: int = STEPS
) -> None:
    """Learns which of four numbers is the largest; every step is sampled."""
    torch.manual_seed(0)
    model = model or mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with nd.watch(model, optimizer, logdir=logdir, run=name, every=1, memory=False) as monitor:
        for _ in range(steps):
            inputs = torch.randn(32, 16)
            loss = nn.functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss, accuracy=0.5)


def diverge(logdir: Path, name: str) -> None:
    """Becomes NaN after a few steps."""
    train(logdir, name, model=nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)), rate=1e8)


def write_curve(folder: Path, *, steps: int = 20, first: int = 0) -> None:
    """A run of scalars alone, without a training: quick to make in great numbers."""
    writer = EventWriter(folder, mirror=None)
    for step in range(first, first + steps):
        writer.put(StepRecord(step, 1.7e9 + step, {"loss": math.exp(-step / steps), "batch_size": 32.0}))
    writer.close()
