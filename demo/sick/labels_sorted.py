"""Sick: the examples come sorted by class and are not shuffled.

Each batch is of one class: the network learns to answer just this one, and forgets those before. The cure:
`DataLoader(..., shuffle=True)`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.arange(1000) // 250
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=25, shuffle=False)

with nd.watch(model, optimizer) as monitor:
    for _ in range(3):
        for examples, answers in loader:
            loss = functional.cross_entropy(model(examples), answers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
