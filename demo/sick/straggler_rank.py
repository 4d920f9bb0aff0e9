"""Sick: of two processes that train together, the second takes 20 ms longer for each batch.

The first waits for it in each backward pass, so both are as slow as the slower one. The cure: look at what is
different there, such as a disk, another program on the same GPU, or longer batches.

Both write into one run; `netdebug check runs` compares them, and so does the page.
"""

import os
import sys
import tempfile
import time

import torch
from torch import distributed, multiprocessing, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import tb_netdebug as nd


def train(rank, rendezvous, seed):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2")
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1000 * seed + rank)  # batches of its own
    with nd.watch(model, optimizer, run="two-processes") as monitor:
        for _ in range(80):
            inputs = torch.randn(32, 16)
            if rank == 1:
                time.sleep(0.02)
            loss = functional.cross_entropy(model(inputs), inputs[:, :4].argmax(1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        words = (f"{folder}/rendezvous", int(sys.argv[1]) if len(sys.argv) > 1 else 0)
        multiprocessing.start_processes(train, words, nprocs=2, start_method="fork")
    for run in nd.check("runs").runs:
        for finding in run.findings:
            print(finding.message)
