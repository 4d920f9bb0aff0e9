"""Sick: two of a hundred examples are of the second class, and the network never names it.

Its accuracy is 98 % without having learned anything. The cure: `weight=torch.tensor([1.0, 50.0])` in
cross_entropy, or a WeightedRandomSampler.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = (torch.rand(4000) < 0.02).long()
inputs = torch.randn(4000, 16) + 0.3 * labels[:, None]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for _ in range(200):
        batch = torch.randint(4000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
