"""For the tests of zero code: trainings that are found as `netdebug run` finds them."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tb_netdebug.recording.settings import Settings
from tb_netdebug.training.zero_code.driver import ZeroCode
from tests.support.loops import hooks_of

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests/support/scripts"


@contextmanager
def zero_code(logdir: Path, **options: Any) -> Iterator[ZeroCode]:
    """What is trained inside is watched as `netdebug run` does it; nothing may go wrong in that."""
    watched = ZeroCode(
        Settings(**{"logdir": logdir, "run": "run", "every": 1, "on_finding": "ignore", **options})
    )
    before, leave = hooks_of(), os._exit
    watched.install()
    try:
        yield watched
    finally:
        watched.close()
    assert 0 == watched.faults
    assert (before, leave) == (hooks_of(), os._exit)


def run(
    script: str, *arguments: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """What a script prints, in this process."""
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    capsys.readouterr()
    runpy.run_path(str(SCRIPTS / script), run_name="__main__")
    return capsys.readouterr().out


def step(model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor | None = None) -> float:
    """One of training."""
    loss = model(torch.randn(6, 4) if inputs is None else inputs).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.item())


def sgd(*models: nn.Module, lr: float = 0.01) -> torch.optim.SGD:
    return torch.optim.SGD([each for model in models for each in model.parameters()], lr=lr)
