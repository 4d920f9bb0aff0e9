"""`%load_ext tb_netdebug` in IPython."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

BEFORE = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance(history_enabled=False)

def cell(text):
    sys.stdout.flush()
    shell.run_cell(text).raise_error()
"""
TRAINING = """
import torch
from torch import nn
torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
def train(steps):
    for _ in range(steps):
        inputs = torch.randn(8, 4)
        loss = (net(inputs) - inputs.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def in_notebook(folder: Path, *cells: str) -> str:
    """What a notebook with these cells shows, as one text."""
    program = BEFORE + "".join(f"cell({text!r})\n" for text in cells)
    path = "" if sys.flags.isolated else str(ROOT)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "IPYTHONDIR": str(folder / "ipython")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert 0 == ran.returncode, ran.stdout
    return ran.stdout


@pytest.mark.parametrize("order", ["extension first", "training first"])
def test_a_training_in_a_notebook_is_watched(order: str, tmp_path: Path) -> None:
    """Whether the extension or the network was there first: then its first step passes unseen, for it shows
    that there is an optimizer. %netdebug tells the state in between."""
    cells = ["%load_ext tb_netdebug", TRAINING]
    unseen = 0
    if order == "training first":
        cells.reverse()
        unseen = 1
    shown = in_notebook(
        tmp_path, *cells, "train(5)", "%netdebug", "train(7)", "%netdebug show", "print('end of cells')"
    )
    assert f"NetDebug: {5 - unseen} steps recorded, verdict healthy." in shown
    assert f"NetDebug: {12 - unseen} steps recorded, verdict healthy." in shown
    assert "tensorboard --logdir runs" in shown
    assert 1 == len(list((tmp_path / "runs").iterdir()))


def test_a_network_made_anew_in_a_notebook_begins_a_run(tmp_path: Path) -> None:
    """Running the cell again that makes it is a second training."""
    shown = in_notebook(
        tmp_path,
        "%load_ext tb_netdebug",
        TRAINING,
        "train(5)",
        TRAINING,
        "train(6)",
        "%netdebug",
    )
    assert "2 runs recorded: 2 healthy." in shown
    assert 2 == len(list((tmp_path / "runs").iterdir()))


def test_watching_can_be_switched_off_and_on(tmp_path: Path) -> None:
    """`off` ends the run, `on` takes the options of `netdebug run`, and mistakes are one sentence."""
    shown = in_notebook(
        tmp_path,
        "%load_ext tb_netdebug",
        TRAINING,
        "%netdebug off",
        "train(3)",
        "%netdebug on --logdir logs --run second --every 1",
        "train(5)",
        "%netdebug",
        "%netdebug on --every often",
        "%netdebug on --speed 3",
        "%netdebug dance",
        "%unload_ext tb_netdebug",
        "train(5)",
    )
    assert not (tmp_path / "runs").exists()
    assert "NetDebug: 4 steps recorded" in shown
    assert ["second"] == [path.name for path in (tmp_path / "logs").iterdir()]
    assert "%netdebug: argument --every: invalid rate value: 'often'" in shown
    assert "%netdebug: unrecognized arguments: --speed 3" in shown
    assert "%netdebug dance is not a command; use show, on or off" in shown
    assert "Traceback" not in shown


def test_an_error_in_a_cell_does_not_end_the_watching(tmp_path: Path) -> None:
    """The next cell trains on, and its steps are recorded."""
    failing = "try:\n    net(torch.ones(1, 9))\nexcept RuntimeError:\n    print('failed')"
    shown = in_notebook(
        tmp_path, "%load_ext tb_netdebug", TRAINING, "train(2)", failing, "train(2)", "%netdebug"
    )
    assert "failed" in shown
    assert "NetDebug: 4 steps recorded" in shown
