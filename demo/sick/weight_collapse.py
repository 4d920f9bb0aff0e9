"""Sick: a weight decay of 0.7, which takes 7 % off each weight in each step.

That is more than the gradients of this network put back: it forgets faster than it learns. The cure:
`weight_decay=1e-4`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 16)
labels = (inputs[:, 0] * inputs[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.7)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
