"""Sick: the loss takes the logarithm of a share that becomes 0.

log(0) is minus infinity, and 0 times that is NaN. The cure: `shares.clamp(min=1e-8)` before the logarithm, or
better `functional.cross_entropy(scores, labels)`, which does all of it safely.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.randint(4, (1000,))
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.03)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        shares = torch.relu(torch.softmax(model(inputs[batch]), 1) - 1e-3)
        targets = functional.one_hot(labels[batch], 4)
        loss = -(targets * shares.log()).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
