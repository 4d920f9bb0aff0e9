import torch

torch.manual_seed(0)
weight = torch.randn(3, 1, requires_grad=True)
bias = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=0.1)
inputs = torch.randn(32, 3)
targets = inputs @ torch.tensor([[1.0], [2.0], [3.0]])
for _ in range(6):
    loss = (inputs @ weight + bias - targets).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(repr(loss.item()))
