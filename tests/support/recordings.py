"""Runs for the tests of the page, recorded from real trainings of small networks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import tb_netdebug as nd
from tb_netdebug.checks.finding import Finding
from tb_netdebug.core.eventlog.writer import EventWriter
from tb_netdebug.core.records.findings import encode_findings
from tb_netdebug.core.records.run_info import encode_run_info
from tb_netdebug.core.records.step import StepRecord

STEPS = 60
PHASES = {"time/step": 0.01, "time/data": 0.002, "time/forward": 0.003, "time/backward": 0.004}
MEMORY = {"memory/rss": 3.0 * 2**30}


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4))


def train(
    logdir: Path, name: str, *, model: nn.Module | None = None, rate: float = 0.05, steps: int = STEPS
) -> None:
    """Learns which of four numbers is the largest; every step is sampled."""
    torch.manual_seed(0)
    model = model or mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    with nd.watch(model, optimizer, logdir=logdir, run=name, every=1) as monitor:
        for _ in range(steps):
            inputs = torch.randn(32, 16)
            labels = inputs[:, :4].argmax(1)
            monitor.tensor("input/numbers", inputs)
            monitor.tensor("label/largest", labels)
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss, accuracy=0.5)


def diverge(logdir: Path, name: str) -> None:
    """Becomes NaN after a few steps."""
    train(logdir, name, model=nn.Sequential(nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)), rate=1e8)


def write_curve(
    folder: Path,
    *,
    steps: int = 20,
    first: int = 0,
    rank: int = 0,
    scalars: Mapping[str, float] | None = None,
    info: Mapping[str, Any] | None = None,
) -> None:
    """A run of scalars alone, without a training: quick to make in great numbers."""
    writer = EventWriter(folder, rank=rank, mirror=None)
    if info is not None:
        writer.run_info(encode_run_info(dict(info)))
    for step in range(first, first + steps):
        told = {"loss": math.exp(-step / steps), "batch_size": 32.0, **(scalars or {})}
        writer.put(StepRecord(step, 1.7e9 + step, told))
    writer.close()


def write_summary(folder: Path, *, steps: int = 20) -> None:
    """A run as torch's own writer records it."""
    with SummaryWriter(str(folder)) as writer:
        for step in range(steps):
            writer.add_scalar("loss", 1 / (step + 1), step)
            writer.add_histogram("layer/weight", torch.linspace(-1, 1, 100) * (step + 1), step)


def record_gallery(logdir: Path) -> None:
    """A run of each kind."""
    train(logdir, "healthy")
    diverge(logdir, "blown-up")
    write_curve(logdir / "scalars")
    write_curve(logdir / "ranks", scalars={**PHASES, **MEMORY}, info={"processes": 2, "in_parts": 4})
    write_curve(logdir / "ranks", rank=1, scalars={**PHASES, "time/step": 0.03, "time/data": 0.02})
    write_summary(logdir / "summary")


class MessageSender:
    """A judge for EventWriter that says what it is told to: pages are tested with findings of any kind."""

    def __init__(self, findings: Sequence[Finding] = ()) -> None:
        self._news = list(findings)
        self._steps = 0

    def say(self, findings: Sequence[Finding]) -> None:
        """From the next step on."""
        self._news = list(findings)

    def judge(self, records: Sequence[StepRecord]) -> bytes | None:
        self._steps += len(records)
        news = [each.as_dict() for each in self._news]
        return encode_findings(news, steps=self._steps, checks={})

    def finish(self) -> bytes | None:
        return None
