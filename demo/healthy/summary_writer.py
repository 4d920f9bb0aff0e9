"""Healthy, and without NetDebug: what `SummaryWriter` of torch records is shown and judged as well."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(0)
torch.set_num_threads(1)

inputs = torch.randn(1000, 16)
labels = (inputs[:, 0] + inputs[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

with SummaryWriter("runs/summary-writer") as writer:
    for step in range(300):
        batch = torch.randint(1000, (64,))
        scores = model(inputs[batch])
        loss = functional.cross_entropy(scores, labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("loss", loss, step)
        writer.add_scalar("accuracy", (scores.argmax(1) == labels[batch]).float().mean(), step)
