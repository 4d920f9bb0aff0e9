"""A small network that trains at a steady pace: `live_trainee.py LOGDIR RUN STEP_SECS [DEBUGGER]`.

Says "training" when the first step is done, and goes on until its standard input ends.
"""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path

import torch
from torch import nn

import tb_netdebug as nd


def main(logdir: Path, run: str, step_secs: float, debugger: str | None = None) -> None:
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    inputs, labels = torch.randn(64, 32, 32), torch.randint(0, 10, (64, 32))
    count = 0
    # Strict: monitoring that had failed and switched itself off would have nothing to show.
    with nd.watch(model, optimizer, logdir=logdir, run=run, strict=True, debugger=debugger) as monitor:
        due = time.monotonic()
        while not asked_to_stop(due - time.monotonic()):
            due = max(due, time.monotonic() - step_secs) + step_secs
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[count % 64]), labels[count % 64])
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
            if count == 0:
                sys.stdout.write("training\n")
                sys.stdout.flush()
            count += 1


def asked_to_stop(wait_secs: float) -> bool:
    """Whether the standard input ends within that time, which is what a data loader would take."""
    return bool(select.select([sys.stdin], [], [], max(0.0, wait_secs))[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), *sys.argv[4:5])
