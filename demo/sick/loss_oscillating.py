"""Sick: with a momentum of 0.999 the weights roll past the lowest point, up the other side, and back.

The loss swings up and down and gets nowhere. The cure: `momentum=0.9`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(500, 4)
targets = inputs @ torch.tensor([[1.0], [-2.0], [0.5], [1.5]])
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.999)

with nd.watch(model, optimizer) as monitor:
    for _ in range(150):
        loss = functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
