"""Sick: inputs from 0 to 255 drive all tanh units to the flat ends of their curve.

Their slope there is nearly 0, so the first layers do not learn. The cure: `inputs / 255`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = 255.0 * torch.rand(1000, 20)
labels = (inputs[:, 0] > inputs[:, 1]).long()
model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
