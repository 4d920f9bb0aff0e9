"""Sick: a recurrent network over sixty steps, each of which makes the gradient larger.

The state is multiplied by 1.2 in each step, and 1.2 ** 60 is 56,000. The cure: 1.0 for 1.2, an LSTM, and
`nn.utils.clip_grad_norm_(model.parameters(), 1.0)`.
"""

import sys

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_num_threads(1)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(1, 32, nonlinearity="relu", batch_first=True)
        self.rnn.weight_hh_l0.data = 1.2 * torch.eye(32)
        self.head = nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

with nd.watch(model, optimizer) as monitor:
    for _ in range(60):
        inputs = torch.rand(32, 60, 1)
        loss = functional.mse_loss(model(inputs), inputs.mean(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
