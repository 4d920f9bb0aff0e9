"""Sick: a learning rate of 1e-9, ten million times too small.

The loss after 150 steps is the one it began with. The cure: `lr=1e-2`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 16)
targets = 3.0 + inputs[:, :1] * inputs[:, 1:2]
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)

with nd.watch(model, optimizer) as monitor:
    for _ in range(150):
        batch = torch.randint(1000, (128,))
        loss = functional.mse_loss(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
