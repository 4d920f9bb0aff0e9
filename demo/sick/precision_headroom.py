"""Sick: a network in float16 whose values come close to 65504, the largest number that it holds.

The inputs are counts around 15000. The cure: divide them by 10000, or use bfloat16.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.randint(4, (1000,))
counts = 15000 + 1000 * torch.randn(1000, 16) + 2000 * torch.eye(4, 16)[labels]
inputs = counts.half()
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).half()
with torch.no_grad():
    model[0].weight.abs_()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]).float(), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
