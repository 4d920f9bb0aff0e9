"""Sick: each example takes a millisecond to be read, in the process that trains.

Nearly all of the time is spent waiting for the loader. The cure: `num_workers=4`, or read everything once
before the training.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)


class Slow(Dataset):
    """Examples on a slow disk."""

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.001)
        return torch.randn(16) + 2 * torch.eye(4, 16)[index % 4], index % 4


model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for examples, answers in DataLoader(Slow(), batch_size=16):
        loss = functional.cross_entropy(model(examples), answers)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
