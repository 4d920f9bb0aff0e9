import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(16, 3)
targets = inputs @ torch.tensor([[1.0], [2.0], [3.0]])
line = nn.Linear(3, 1)
optimizer = torch.optim.LBFGS(line.parameters(), lr=0.5, max_iter=4)


def closure():
    optimizer.zero_grad()
    loss = (line(inputs) - targets).square().mean()
    loss.backward()
    return loss


for _ in range(5):
    print(repr(optimizer.step(closure).item()))
