"""Sick: bfloat16 weights, and steps that are too small for them.

bfloat16 keeps two to three digits: a change of a thousandth is rounded away. The cure: keep the weights in
float32, and compute inside of `torch.autocast("cpu", torch.bfloat16)`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.randint(4, (1000,))
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).bfloat16()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

with nd.watch(model, optimizer) as monitor:
    for _ in range(80):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch].bfloat16()).float(), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
