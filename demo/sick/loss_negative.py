"""Sick: nll_loss wants logarithms of probabilities and gets probabilities.

Then the loss is minus the probability of the right class, between -1 and 0. The cure: `log_softmax`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 16)
labels = (inputs @ torch.randn(16, 4)).argmax(1)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

with nd.watch(model, optimizer) as monitor:
    for _ in range(80):
        batch = torch.randint(1000, (64,))
        loss = functional.nll_loss(model(inputs[batch]), labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
