"""Sick: each step makes a new iterator of the loader and takes its first batch.

Of 1000 examples the network sees 32. The cure: `for examples, answers in loader:`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

labels = torch.arange(1000) % 4
inputs = torch.randn(1000, 16) + 2 * torch.eye(4, 16)[labels]
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=32)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        examples, answers = next(iter(loader))
        loss = functional.cross_entropy(model(examples), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
