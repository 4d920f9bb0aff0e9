"""Sick: a list keeps the loss of each step as a tensor, and with it all that it was made of.

Memory grows by two megabytes a step. The cure: `losses.append(loss.item())`.

A training that leaks is found within minutes; for this short one, the thresholds are set lower.
"""

import sys
import time

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)

inputs = torch.randn(256, 16)
targets = inputs.sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(16, 1024), nn.Tanh(), nn.Linear(1024, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []

with nd.watch(model, optimizer, checks={"memory-growth": {"steps": 60, "megabytes": 32}}) as monitor:
    for _ in range(120):
        loss = functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        losses.append(loss)
        time.sleep(0.03)  # memory is read once in a second
        monitor.step(loss=loss)
