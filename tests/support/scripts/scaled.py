import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for number in range(8):
    inputs = torch.randn(8, 4)
    loss = model(inputs).square().mean() * (float("inf") if number == 3 else 1.0)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    print(repr(loss.item()))
print([value.tolist() for value in model.state_dict().values()])
