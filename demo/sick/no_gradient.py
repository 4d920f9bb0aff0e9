"""Sick: a `.detach()` that was left between the first part of a network and the second.

The first part gets no gradient and stays as it is. The cure: remove `.detach()`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.features(x).detach())


labels = torch.randint(4, (1000,))
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for _ in range(80):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
