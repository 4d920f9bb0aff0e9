import torch
from torch import nn
from torch.nn import functional


def batches(count):
    for _ in range(count):
        inputs = torch.randn(8, 5)
        yield inputs, inputs.sum(1, keepdim=True)


def train_epoch(model, optimizer, count):
    model.train()
    for inputs, targets in batches(count):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


@torch.no_grad()
def evaluate(model):
    model.eval()
    return sum(functional.mse_loss(model(inputs), targets).item() for inputs, targets in batches(3))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3)
    print(evaluate(model))
    for _ in range(3):
        print([repr(loss) for loss in train_epoch(model, optimizer, 4)], evaluate(model))
        schedule.step()
    print([value.tolist() for value in model.state_dict().values()], torch.rand(1).item())


main()
