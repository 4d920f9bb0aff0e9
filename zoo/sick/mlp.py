"""Multi-layer perceptrons with a fault."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from zoo.data import blobs
from zoo.program import Zoo, sick


@sick("eval-mode-training")
def mlp_left_in_eval(zoo: Zoo) -> None:
    """After a first evaluation the model is never put back into train mode."""
    inputs, labels = blobs(512, features=20, classes=4)
    model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    monitor = zoo.watch(model, optimizer)
    model.eval()
    with torch.no_grad():
        functional.cross_entropy(model(inputs), labels)
    for step in range(150):
        batch = slice(step % 8 * 64, step % 8 * 64 + 64)
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
