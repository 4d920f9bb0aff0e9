"""Sick: a penalty on large weights with the wrong sign rewards them.

The loss falls and falls below 0, and the weights grow by 4 % in each step. The cure: `+ 0.1 * penalty`.
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
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        penalty = sum(parameter.square().sum() for parameter in model.parameters())
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch]) - 0.1 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
