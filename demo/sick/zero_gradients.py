"""Sick: the code between encoder and decoder is rounded, and rounding has the slope 0.

No gradient gets to the encoder. The cure: a straight-through estimate,
`code = soft + (soft.round() - soft).detach()`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(16, 12)
        self.decoder = nn.Linear(12, 16)

    def forward(self, x):
        return self.decoder(torch.sigmoid(self.encoder(x)).round())


model = Coder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)

with nd.watch(model, optimizer) as monitor:
    for _ in range(100):
        inputs = torch.randn(64, 16)
        loss = functional.mse_loss(model(inputs), inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
