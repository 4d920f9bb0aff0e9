"""Sick: a weight decay of 20 that was meant to be 2e-4.

With a learning rate of 0.005 each step takes a tenth off every weight: what a batch has taught is gone twenty
steps later. The cure: `weight_decay=2e-4`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.randint(4, (1000,))
inputs = torch.randn(1000, 16) + torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.005, weight_decay=20)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
