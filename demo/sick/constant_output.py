"""Sick: weights that all begin at 0.01 of their size let no input through to the output.

Eight layers shrink everything that depends on the input to nothing; what comes out are the biases. The
cure: the default initialisation.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 16)
labels = (inputs[:, 0] > 0).long() + 2 * (inputs[:, 1] > 0).long()
layers = []
for _ in range(8):
    layers += [nn.Linear(32 if layers else 16, 32), nn.ReLU()]
model = nn.Sequential(*layers, nn.Linear(32, 4))
with torch.no_grad():
    for layer in model[::2]:
        layer.weight *= 0.01
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

with nd.watch(model, optimizer) as monitor:
    for _ in range(120):
        batch = torch.randint(1000, (64,))
        loss = functional.cross_entropy(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
