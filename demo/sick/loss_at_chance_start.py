"""Sick: the last layer begins with weights that are 40 times too large.

Before it has learned anything the network is very sure of answers that are wrong: its first loss is far
above the ln 10 = 2.3 of guessing. The cure: the default initialisation.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(2000, 32)
labels = (inputs @ torch.randn(32, 10)).argmax(1)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
with torch.no_grad():
    model[2].weight *= 40.0
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(2000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
