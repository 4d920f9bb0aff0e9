import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(dist.get_rank())
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(torch.randn(6, 4)).square().mean()
        loss.backward()
        optimizer.step()
    line = f"rank {dist.get_rank()} of {os.environ['WORLD_SIZE']}: {loss.item()!r}\n"
    os.write(1, line.encode())  # at once, or the ranks' words would be mixed


dist.init_process_group("gloo")
main()
dist.destroy_process_group()
time.sleep(1)  # a thread of gloo may still be ending, and its process would end by SIGABRT: torch's own race
