"""Sick: the training needs more memory than the machine has.

Nothing of the kind is done here: instead, the check is told to speak as soon as less than a thousand
terabytes are left. The cure: smaller batches, fewer workers, data read piece by piece.
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

with nd.watch(model, optimizer, checks={"memory-pressure": {"host_left_megabytes": 1e9}}) as monitor:
    for _ in range(90):
        batch = torch.randint(1000, (32,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.03)  # memory is read once in a second
        monitor.step(loss=loss)
