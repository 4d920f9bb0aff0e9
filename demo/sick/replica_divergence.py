"""Sick: two processes train side by side, and nothing keeps their weights equal.

They start alike and see different batches, so each becomes a network of its own. The cure:
`model = nn.parallel.DistributedDataParallel(model)`. `netdebug check runs` compares the processes.
"""

import os
import sys
import tempfile

import torch
from torch import distributed, nn
from torch.nn import functional

import tb_netdebug as nd

PROCESSES = 2


def train(rank: int, seed: int, folder: str) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(PROCESSES))
    torch.set_num_threads(1)
    store = distributed.FileStore(f"{folder}/store", PROCESSES)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=PROCESSES)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1000 * seed + rank)
    with nd.watch(model, optimizer) as monitor:
        for _ in range(60):
            labels = torch.randint(4, (32,))
            inputs = torch.randn(32, 16) + 2 * torch.eye(4, 16)[labels]
            loss = functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    distributed.destroy_process_group()


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (seed, folder), PROCESSES)
