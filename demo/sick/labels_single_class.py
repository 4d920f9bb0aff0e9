"""Sick: a wrong conversion makes all labels 0.

The network learns to answer 0 to everything, with a loss that falls nicely. The cure: look at
`labels.unique(return_counts=True)` before the training; here, compare with the right names.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

names = ["cat", "dog", "cow", "owl"] * 250
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[torch.arange(1000) % 4]
labels = torch.tensor([["Cat", "Dog", "Cow", "Owl"].index(name) if name.istitle() else 0 for name in names])
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (32,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
