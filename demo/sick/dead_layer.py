"""Sick: the first step is so large that a whole layer of ReLUs is 0 from then on.

Nothing of the inputs comes through any more; only the last bias still learns. The cure: `lr=0.05`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.rand(1000, 20)  # all positive: a step moves all units in the same direction
targets = inputs.sum(1, keepdim=True) - 30.0
model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        batch = torch.randint(1000, (64,))
        loss = functional.mse_loss(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0)
        optimizer.step()
        monitor.step(loss=loss)
