"""Sick: all weights of the network start with the same value.

So all units of a layer do the same, get the same gradient, and stay the same for ever. The cure: leave the
weights as torch starts them.
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
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))
for parameter in model.parameters():
    nn.init.constant_(parameter, 0.1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
