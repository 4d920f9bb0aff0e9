"""Sick: weights drawn with a standard deviation of 1 make the outputs grow from layer to layer.

Each of the layers makes them about 6 times larger. The cure: the default initialisation of nn.Linear.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 64)
targets = inputs.mean(1, keepdim=True)
layers = []
for _ in range(8):
    layers += [nn.Linear(64, 64), nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(64, 1))
for layer in model:
    if isinstance(layer, nn.Linear):
        nn.init.normal_(layer.weight)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

with nd.watch(model, optimizer) as monitor:
    for _ in range(80):
        batch = torch.randint(1000, (64,))
        loss = functional.mse_loss(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
