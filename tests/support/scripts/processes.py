import os
import sys
import time

import torch
from torch import multiprocessing as mp
from torch import nn


def train(rank, steps):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for number in range(steps + rank):
        loss = model(torch.randn(8, 4)).square().mean()
        if rank == 1 and number == 3:
            loss = loss * float("nan")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if rank == 2 and "fails" in sys.argv:
        raise ValueError("broken")
    return losses


def ranks_train(rank, port):
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


def main(way):
    if way == "torch":
        mp.spawn(train, args=(5,), nprocs=3)
    elif way == "ranks":
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        mp.spawn(ranks_train, args=(port,), nprocs=2)
    elif way == "daemon":
        if os.fork():
            os._exit(0)
        os.setsid()
        for _ in range(1000):
            if os.getppid() == 1 or os.getppid() != PARENT:
                break
            time.sleep(0.01)
        train(0, 5)
    elif way == "forked":
        if os.fork() == 0:
            train(0, 5)
            return
        os.wait()
    elif way == "forked-late":
        train(0, 4)
        if os.fork() == 0:
            train(0, 5)
            return
        os.wait()
    else:
        started = [mp.get_context(way).Process(target=train, args=(rank, 5)) for rank in range(3)]
        for each in started:
            each.start()
        for each in started:
            each.join()
        print([each.exitcode for each in started])


PARENT = os.getpid()
if __name__ == "__main__":
    main(sys.argv[1])
