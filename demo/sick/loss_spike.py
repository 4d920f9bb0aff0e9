"""Sick: every 40th batch has targets in another unit, a thousand times too large.

The loss jumps each time, and what was learned is partly lost. The cure: mend these targets.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 8)
targets = inputs @ torch.randn(8, 1)
model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

with nd.watch(model, optimizer) as monitor:
    for step in range(150):
        batch = torch.randint(1000, (64,))
        unit = 1000.0 if step % 40 == 39 else 1.0
        loss = functional.mse_loss(model(inputs[batch]), unit * targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
