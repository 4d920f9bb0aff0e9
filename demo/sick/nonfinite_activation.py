"""Sick: a layer takes the square root of what may be negative.

All goes well until the first unit falls below 0. The cure: `torch.sqrt(x.clamp(min=1e-8))`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)


class Root(nn.Module):
    def forward(self, x):
        return torch.sqrt(x)


labels = torch.randint(4, (1000,))
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), Root(), nn.Linear(8, 4))
with torch.no_grad():
    model[2].bias.fill_(2.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
