"""Sick: mixed precision with a loss that is far too large, so gradients overflow at any scale.

The gradient scaler makes its scale smaller and smaller, and leaves out step after step. The cure: the mean of
the loss, not its sum times a million.
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
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
scaler = torch.amp.GradScaler("cpu")

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        batch = torch.randint(1000, (64,))
        with torch.autocast("cpu", torch.float16):
            scores = model(inputs[batch])
        loss = 1e6 * functional.cross_entropy(scores.float(), labels[batch], reduction="sum")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        monitor.step(loss=loss)
