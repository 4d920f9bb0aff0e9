"""Sick: most units of the hidden layer begin with a large negative bias and are 0 for every input.

A unit that is 0 gets no gradient, so it stays as it is. The cure: leave the biases as they are.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 20)
labels = (inputs[:, 0] * inputs[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
with torch.no_grad():
    model[0].bias[:48] = -20.0
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
