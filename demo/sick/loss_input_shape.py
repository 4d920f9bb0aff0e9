"""Sick: predictions of shape [32, 1] are compared with targets of shape [32].

Both are stretched to [32, 32]: each prediction is pulled to the mean of all targets of its batch.
The cure: `model(inputs[batch]).squeeze(1)`.
"""

import sys
import warnings

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 8)
targets = inputs.sum(1)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

warnings.simplefilter("ignore")  # torch says it, too, once, between all that scrolls by
with nd.watch(model, optimizer) as monitor:
    for _ in range(80):
        batch = torch.randint(1000, (32,))
        loss = functional.mse_loss(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
