"""Counts what NetDebug calls in training steps that are not sampled: `step_calls.py LOGDIR [--by-function]`.

Prints a line of JSON: how many Python functions of NetDebug are called in a step, and how many C functions
from these. It is the median, because a few steps do more than the others. Not counted is the reading of how
long threads waited for a processor: it comes after slow steps, so its number depends on the machine. It needs
a process of its own, in which nothing else is watched.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any

import torch
from torch import nn

import tb_netdebug as nd

OURS = str(Path(nd.__file__).parent)
NOT_COUNTED = "processor_wait.py"
BEFORE, COUNTED = 40, 200  # steps: what is looked at in a run's first steps only is over by then


def main(logdir: str, *, by_function: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.randn(16, 8), torch.randint(0, 4, (16,))
    monitor = nd.watch(model, optimizer, logdir=logdir, every=10**6)
    python, native = Counter[str](), Counter[str]()
    totals: list[tuple[int, int]] = []

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(OURS) or code.co_filename.endswith(NOT_COUNTED):
            return
        if event == "call":
            python[f"{code.co_filename[len(OURS) + 1 :]}:{code.co_qualname}"] += 1
        elif event == "c_call":
            native[f"{code.co_qualname}: {argument.__qualname__}"] += 1

    for number in range(BEFORE + COUNTED):
        if number == BEFORE:
            sys.setprofile(note)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        monitor.step(loss=loss)
        totals.append((python.total(), native.total()))
    sys.setprofile(None)
    monitor.close()
    if by_function:
        for counts in (python, native):
            for name, count in counts.most_common():
                print(f"{count / COUNTED:6.2f}  {name}")
    found = {}
    for name, sums in zip(("python", "native"), zip(*totals[BEFORE - 1 :], strict=True), strict=True):
        found[name] = median(after - before for before, after in pairwise(sums))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], by_function="--by-function" in sys.argv)
