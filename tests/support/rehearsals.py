"""Scripts that are run up to a step, from a process that has imported torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSWER = "ANSWER "
PATIENT_SECS = 60.0
HEAD = """
import contextlib, os, sys, threading
import torch
from torch import nn
torch.manual_seed(0)
x = torch.randn(8, 4)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
begun = net[0].weight.sum().item()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
backwards = 0
def step():
    global backwards
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    backwards += 1
    opt.step()
    now[0] = net[0].weight.sum().item()
now = [begun]
"""


class Rehearsals:
    """The process that runs the scripts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/support/rehearsed.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": "" if sys.flags.isolated else str(ROOT)},
        )

    def run(self, text: str, *, step: int = 1, patience_secs: float = PATIENT_SECS) -> dict[str, Any]:
        """What the script had when it was stopped, the exit status and all that it printed."""
        (self._folder / "train.py").write_text(text)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(["train.py", step, patience_secs]) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = {}
        printed = []
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                found |= json.loads(line.removeprefix(ANSWER))
                if "status" in found:
                    break
            else:
                printed.append(line.strip())
        return {**found, "printed": printed}

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
