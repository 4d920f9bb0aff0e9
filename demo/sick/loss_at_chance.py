"""Sick: inputs and labels are shuffled apart from each other, so there is nothing to learn.

The loss stays where guessing among five classes is, ln 5 = 1.61. The cure: one order for both.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(5000, 16)
labels = (inputs @ torch.randn(16, 5)).argmax(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

with nd.watch(model, optimizer) as monitor:
    for _ in range(200):
        loss = functional.cross_entropy(
            model(inputs[torch.randint(5000, (64,))]), labels[torch.randint(5000, (64,))]
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
