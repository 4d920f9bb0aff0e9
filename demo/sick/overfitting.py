"""Sick: a large network and 40 examples with noise in their labels: it learns them by heart.

The loss on examples that it does not train on rises, while the one it trains on goes to 0. The cure: more
examples, `weight_decay`, or to stop where the validation loss was lowest.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(240, 20)
labels = (inputs[:, 0] + 1.5 * torch.randn(240) > 0).long()
train, held_out = slice(0, 40), slice(40, 240)
model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

with nd.watch(model, optimizer) as monitor:
    for step in range(120):
        loss = functional.cross_entropy(model(inputs[train]), labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            with torch.no_grad():
                monitor.log(val_loss=functional.cross_entropy(model(inputs[held_out]), labels[held_out]))
        monitor.step(loss=loss)
