"""Sick: the model is evaluated without `model.eval()`.

Dropout leaves out units at random, and batch norm learns from the examples that it is tested on. The cure:
`model.eval()` before the evaluation and `model.train()` after it.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.arange(1000) % 4
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for step in range(80):
        batch = torch.randint(800, (32,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 10:
            with torch.no_grad():
                monitor.log(val_loss=functional.cross_entropy(model(inputs[800:]), labels[800:]))
        monitor.step(loss=loss)
