"""Sick: the scheduler is made for epochs, but is called in each step.

After 40 steps the learning rate is 600 times lower, and the loss stays where it is, half-way down. The
cure: `scheduler.step()` once an epoch.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(2000, 16)
labels = (inputs @ torch.randn(16, 8)).argmax(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.85)

with nd.watch(model, optimizer) as monitor:
    for _ in range(200):
        batch = torch.randint(2000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        monitor.step(loss=loss)
