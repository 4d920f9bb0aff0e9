"""A real training that lets itself be paused, in a process of its own: for tests of the debugger's page.

It tells pictures with a square from pictures without, has an encoder of two blocks and a head, and goes on
until the context ends. `rates` are the learning rates that its optimizer really had, in their order.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from tests.support.spoken_to import ROOT
from tests.support.streamed import Home

BATCH = 8


class SteppableTraining:
    def __init__(self, home: Home, logdir: Path, run: str) -> None:
        path = os.pathsep.join([*(entry for entry in sys.path if entry), str(ROOT)])
        self.run = run
        self.rates: list[float] = []
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(logdir), run],
            env={**os.environ, **home.env, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, name="rates of the training", daemon=True)
        self._reader.start()

    def __enter__(self) -> SteppableTraining:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            self.rates += (float(line) for line in lines)


def train(logdir: str, run: str) -> None:
    import torch
    from torch import nn

    import tb_netdebug as nd

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(16, 24)
            self.second = nn.Linear(24, 16)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            hidden = torch.relu(self.first(inputs))
            found: torch.Tensor = self.second(hidden)
            return found

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(1, 4, 3, padding=1)
            self.encoder = nn.Sequential(Block(), Block())
            self.head = nn.Linear(16, 2)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            found: torch.Tensor = self.head(self.encoder(self.stem(images).mean(3).flatten(1)[:, :16]))
            return found

    torch.manual_seed(0)
    model, loss_of = Net(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    shown = None
    with nd.watch(model, optimizer, logdir=logdir, run=run, debugger=True, on_finding="ignore") as monitor:
        while True:
            labels = torch.randint(0, 2, (BATCH,))
            images = torch.randn(BATCH, 1, 12, 12) * 0.1
            images[labels == 1, :, 3:9, 3:9] += 1.0
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
            if shown != optimizer.param_groups[0]["lr"]:
                shown = optimizer.param_groups[0]["lr"]
                sys.stdout.write(f"{shown}\n")
                sys.stdout.flush()
            # The two cores of a small machine have a browser to run, too.
            time.sleep(0.01)


if __name__ == "__main__":
    train(*sys.argv[1:])
