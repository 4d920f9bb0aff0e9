"""Sick: two processes share the work, but nobody has told the data: both go through the same batches.

The gradients of both are equal, so the second process is of no use. The cure:
`DataLoader(data, batch_size=32, sampler=DistributedSampler(data))`.
"""

import os
import sys
import tempfile

import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import tb_netdebug as nd

PROCESSES = 2


def train(rank: int, rendezvous: str, seed: int) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(PROCESSES))
    torch.manual_seed(seed)  # the same on both, as it should be: they start with the same weights
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=PROCESSES
    )
    labels = torch.randint(4, (640,))
    inputs = torch.randn(640, 16) + 2 * torch.eye(4, 16)[labels]
    loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with nd.watch(model, optimizer) as monitor:
        for _ in range(4):
            for some, wanted in loader:
                loss = functional.cross_entropy(model(some), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                monitor.step(loss=loss)
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        words = (f"{folder}/rendezvous", int(sys.argv[1]) if len(sys.argv) > 1 else 0)
        multiprocessing.start_processes(train, words, nprocs=PROCESSES, start_method="fork")
