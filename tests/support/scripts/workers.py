import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        own = nn.Linear(2, 1)  # even a training in a worker is none of ours
        optimizer = torch.optim.SGD(own.parameters(), lr=0.1)
        own(torch.randn(1, 2)).sum().backward()
        optimizer.step()
        return torch.full((3,), float(index)), os.getpid()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, multiprocessing_context=sys.argv[1])
    workers = set()
    for _ in range(2):
        for inputs, pids in loader:
            workers.update(pids.tolist())
            loss = model(inputs).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(repr(loss.item()))
    print(len(workers) >= 2, os.getpid() not in workers)


if __name__ == "__main__":
    main()
