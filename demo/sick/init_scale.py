"""Sick: all weights are drawn with a deviation of 1, whatever the number of inputs of a unit.

Each layer makes the signal about eight times as large. The cure: `nn.init.kaiming_normal_(layer.weight)`, or
leave the weights as torch starts them.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.randint(4, (1000,))
inputs = torch.randn(1000, 64) + 2 * torch.eye(4, 64)[labels]
layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.ReLU())]
model = nn.Sequential(*layers, nn.Linear(64, 4))
for layer in model[::2]:
    nn.init.normal_(layer.weight)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
