"""A long training of many small tensors in a process of its own: `trainee.py LOGDIR STEPS EVERY_STEPS`.

Prints a line of JSON every so many steps: the step, the resident memory, the seconds, the size of the log.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil
import torch
from torch import nn

import tb_netdebug as nd

LAYERS = 25
WIDTH = 4


def main(logdir: Path, steps: int, every_steps: int) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)  # for tensors this small a second thread only waits
    layers = [(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)]
    model = nn.Sequential(*[module for pair in layers for module in pair])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(64, 2, WIDTH)
    began = time.perf_counter()
    # Strict: monitoring that had failed and switched itself off would need no memory.
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, strict=True) as monitor:
        for number in range(1, steps + 1):
            optimizer.zero_grad()
            loss = model(inputs[number % 64]).square().mean()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
            if number % every_steps == 0:
                tell(number, logdir, time.perf_counter() - began)


def tell(step: int, logdir: Path, secs: float) -> None:
    size = sum(path.stat().st_size for path in logdir.rglob("*") if path.is_file())
    told = {"step": step, "resident": psutil.Process().memory_info().rss, "secs": secs, "log_bytes": size}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
