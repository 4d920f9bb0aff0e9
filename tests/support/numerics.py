"""Small networks that make a NaN or an infinity, and their training."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.core.records.fact_codec import encode_fact
from tb_netdebug.core.records.facts import NonfiniteFact, TypedFact
from tb_netdebug.recording.collector import StepCollector

NAN, INF = float("nan"), float("inf")


def facts_told(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the probe tells from now on, with the step in which it tells it."""
    told: list[dict[str, Any]] = []
    original = StepCollector.fact

    def fact(self: StepCollector, fact: TypedFact) -> None:
        if isinstance(fact, NonfiniteFact):
            told.append({"step": self.step, **encode_fact(fact).data})
        original(self, fact)

    monkeypatch.setattr(StepCollector, "fact", fact)
    return told


def mean(output: torch.Tensor) -> torch.Tensor:
    return output.mean()


def train(
    model: nn.Module,
    batches: Callable[[int], Any],
    logdir: Path,
    *,
    loss_of: Callable[[Any], torch.Tensor] = mean,
    steps: int = 2,
    **options: Any,
) -> None:
    """A plain loop, watched strictly."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    options = {"memory": False, "on_finding": "ignore", "strict": True, "run": "run", **options}
    with nd.watch(model, optimizer, logdir=logdir, **options) as monitor:
        for step in range(steps):
            batch = batches(step)
            optimizer.zero_grad()
            output = model(**batch) if isinstance(batch, dict) else model(*batch)
            loss = loss_of(output)
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)


# ---- networks ----------------------------------------------------------------------------------------------


class Between(nn.Module):
    """A function of torch between two layers."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.function(self.first(x)))
        return result


class Inside(nn.Module):
    """The same, some levels further down."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Between(torch.relu), Between(function)])
        self.blocks[0].last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Exp(nn.Module):
    """A layer of its own that overflows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x * 1e4)


class Attention(nn.Module):
    """Scores, a mask of -inf, a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)
        self.softmax = nn.Softmax(dim=-1)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        result: torch.Tensor = self.softmax(scores.masked_fill(~mask, -INF)) @ self.value(x)
        return result


class AdditiveMask(Attention):
    """The mask is added, and kept as a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("causal", torch.full((3, 3), -INF).triu(1))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2) + self.causal + mask
        result: torch.Tensor = self.softmax(scores) @ self.value(x)
        return result


class Nested(nn.Module):
    """Outputs as a dictionary of tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.good, self.bad = nn.Linear(4, 4), nn.Linear(4, 1), Exp()

    def forward(self, *, x: torch.Tensor) -> dict[str, Any]:
        hidden = self.body(x)
        return {"good": self.good(hidden), "both": (hidden, self.bad(hidden.abs() + 1.0))}


@dataclass
class Output:
    score: torch.Tensor
    hidden: torch.Tensor


class Dataclassed(Nested):
    """Outputs as a dataclass."""

    def forward(self, *, x: torch.Tensor) -> Any:
        given = super().forward(x=x)
        return Output(given["good"], given["both"][1])


def rows(step: int) -> tuple[torch.Tensor]:
    return (torch.randn(6, 4),)


def sequences(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """In the second step one row of the mask allows nothing."""
    mask = torch.ones(2, 3, 3, dtype=torch.bool).tril()
    if step == 1:
        mask[1, 2] = False
    return torch.randn(2, 3, 4), mask
