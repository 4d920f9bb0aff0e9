import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1).eval()
print(model(torch.ones(2, 4)).tolist())
