"""Sick: in the middle of the training nothing happens for a while.

It may have waited for a disk, a network, or another process. So that nobody has to wait for five minutes
here, the threshold is set to a quarter of a second.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.arange(1000) % 4
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer, checks={"stalled": {"secs": 0.25}}) as monitor:
    for step in range(80):
        batch = torch.randint(1000, (32,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 50:
            time.sleep(2)
        monitor.step(loss=loss)
