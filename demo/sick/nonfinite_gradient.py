"""Sick: the norm of a vector of zeros has no slope, so its gradient is NaN while the loss is a number.

A tenth of the rows is empty, and the difference between two of them is 0. The cure:
`(difference.square().sum(1) + 1e-8).sqrt()`.
"""

import sys

import torch
from torch import nn

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 8)
inputs[::10] = 0.0
model = nn.Linear(8, 4, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (32,))
        length = model(inputs[batch]).square().sum(1).sqrt()
        loss = (length - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
