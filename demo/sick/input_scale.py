"""Sick: one of the features is a year, around 2000, beside others around 0.

The steps that it causes are thousands of times too large for all others. The cure: give each feature mean 0
and spread 1, `inputs = (inputs - inputs.mean(0)) / inputs.std(0)`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 6)
targets = inputs[:, 1:].sum(1, keepdim=True)
inputs[:, 0] = 2000 + 5 * inputs[:, 0]
model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

with nd.watch(model, optimizer) as monitor:
    for _ in range(120):
        batch = torch.randint(1000, (32,))
        loss = functional.mse_loss(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
