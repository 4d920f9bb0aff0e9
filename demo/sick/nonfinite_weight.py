"""Sick: a weight is divided by its own norm after each step, and one row of it is 0.

0 / 0 is NaN. The cure: `functional.normalize(weight, dim=1)`, which adds a small number to the norm.
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
with torch.no_grad():
    model[0].weight[3] = 0.0
    model[0].bias[3] = -1.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model[0].weight /= model[0].weight.norm(dim=1, keepdim=True)
        monitor.step(loss=loss)
