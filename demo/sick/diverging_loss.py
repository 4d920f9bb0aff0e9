"""Sick: each step goes further past the lowest point than the one before it started from.

A linear model with a learning rate of 1.2; beyond 1 its steps are too large. The cure: `lr=0.1`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 8)
targets = inputs @ torch.randn(8, 1)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1.2)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (128,))
        loss = functional.mse_loss(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
