"""Ends in the middle of its fourth step: by an error, or as its argument says."""

import os
import signal
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number in range(6):
    columns = 5 if number == 3 and "forward" in sys.argv else 4
    loss = model(torch.randn(8, columns)).square().mean()
    if number == 3:
        if "os-exit" in sys.argv:
            os._exit(9)
        if "interrupt" in sys.argv:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        if "backward" in sys.argv:
            loss.sum().backward(torch.ones(3))
        assert loss < 0, "the loss is not what it should be"
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
