"""Sick: one of two branches is called inside of `torch.no_grad()` and never moves.

It was pretrained in the first version of this script, and is now new. The cure: remove `torch.no_grad()`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)


class TwoBranches(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Linear(16, 32)
        self.right = nn.Linear(16, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, x):
        with torch.no_grad():
            right = self.right(x)
        return self.head(torch.relu(self.left(x) + right))


labels = torch.randint(4, (1000,))
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = TwoBranches()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for _ in range(80):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
