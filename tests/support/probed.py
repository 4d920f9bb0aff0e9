"""For the tests of probes: a small training under watch, and the facts and scalars that it left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.core.eventlog.reader.run import run_files
from tb_netdebug.judging.recorded import records_in
from tests.support.loops import Recorded, recorded, vectors

# The parameters of `loops.mlp`: all but the last layer, and that one.
BODY = ["0.weight", "0.bias", "2.weight", "2.bias"]
HEAD = ["4.weight", "4.bias"]

# What trains a model in one step; returns the loss.
Body = Callable[[int], Any]


class Probed:
    """A recorded training; `facts` are (step, data) by kind."""

    def __init__(self, path: Path, found: Recorded) -> None:
        self.recorded = found
        self.steps = found.steps
        self.facts: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        for _, record in records_in(run_files(path), []):
            for fact in record.facts:
                self.facts.setdefault(fact.kind, []).append((record.step, fact.data))

    def scalar(self, name: str) -> dict[int, float]:
        """By step; empty when it was never measured."""
        return self.recorded.scalars.get(name, {})

    def last(self, kind: str) -> dict[str, Any]:
        return self.facts[kind][-1][1]


def probed(logdir: Path, model: Any, optimizer: Any, body: Body, *, steps: int = 6, **options: Any) -> Probed:
    """Runs `body` under watch, strictly; a step after each call."""

    def train(monitor: nd.Monitor) -> None:
        for step in range(steps):
            monitor.step(loss=body(step))

    found = recorded(logdir, model, optimizer, train, **{"on_finding": "ignore", **options})
    return Probed(logdir / "run", found)


def sgd(model: nn.Module, lr: float = 0.01) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=lr)


def learn(
    model: nn.Module, optimizer: torch.optim.Optimizer, inputs: torch.Tensor, labels: torch.Tensor
) -> torch.Tensor:
    """One step of the plainest kind; its loss."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return loss


def backward(model: nn.Module) -> torch.Tensor:
    inputs, labels = vectors()
    loss = functional.cross_entropy(model(inputs), labels)
    loss.backward()
    return loss


def learned(logdir: Path, model: nn.Module, optimizer: Any, **options: Any) -> Probed:
    return probed(logdir, model, optimizer, lambda step: learn(model, optimizer, *vectors()), **options)
