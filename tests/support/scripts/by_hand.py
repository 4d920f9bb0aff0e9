import sys

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
way = sys.argv[1]
losses = []

if way == "tensors":
    weight = torch.randn(4, 1, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
else:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    disturbance = torch.zeros(8, 4, requires_grad=True)

for _ in range(20):
    inputs = torch.randn(8, 4)
    labels = inputs.sum(1, keepdim=True)
    if way == "tensors":
        loss = (inputs @ weight + bias - labels).square().mean()
        loss.backward()
        with torch.no_grad():
            for each in (weight, bias):
                each -= 0.05 * each.grad
                each.grad.zero_()
    elif way == "saliency":
        inputs.requires_grad_()
        model.zero_grad()
        loss = model(inputs).sum()
        loss.backward()
    elif way == "adversarial":
        loss = (model(inputs + disturbance) - labels).square().mean()
        loss.backward()
        disturbance.data.add_(0.1 * disturbance.grad.sign()).clamp_(-1, 1)
        disturbance.grad.zero_()
    elif way == "checkpoints":
        model.load_state_dict({name: torch.randn_like(each) for name, each in model.state_dict().items()})
        model.zero_grad()
        loss = model(inputs).sum()
        loss.backward()
    elif way == "taken":
        loss = (model(inputs) - labels).square().mean()
        slopes = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for each, slope in zip(model.parameters(), slopes, strict=True):
                each -= 0.05 * slope
    losses.append(loss.item())
print(losses)
