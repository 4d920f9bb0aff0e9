"""Stepping changes nothing: losses, weights, gradients and random numbers are the same bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tb_netdebug.debugger.place import Place
from tb_netdebug.debugger.workbench import NOTHING, Needs
from tests.support.loops import (
    MODELS,
    Trained,
    assert_equal,
    mlp,
    state_of,
    vectors,
)
from tests.support.stepping import ALL, Script, end_step, stepped

STEPS = 4
PREVIOUS = frozenset({"weight:0.weight", "update:0.weight", "output:0", "output_gradient:0"})
NEEDS = {
    "nothing": NOTHING,
    "phases": Needs(phases=True),
    "layers": Needs(layers=True),
    "backward": Needs(backward=True),
    "ops": Needs(ops=True),
    "keep": Needs(keep=True),
    "all": ALL,
    "previous": Needs(phases=True, layers=True, backward=True, keep=True, previous=PREVIOUS),
}

# Makes a model, its optimizer, and what one step does.
Training = tuple[nn.Module, torch.optim.Optimizer, Callable[[], torch.Tensor]]
Made = Callable[[], Training]


def momentum(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def of_model(
    make_model: Callable[[], nn.Module],
    batch: Callable[[], Any] = vectors,
    make_optimizer: Callable[[nn.Module], torch.optim.Optimizer] = momentum,
) -> Made:
    def make() -> Training:
        model = make_model()
        optimizer = make_optimizer(model)

        def step() -> torch.Tensor:
            inputs, labels = batch()
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            return loss

        return model, optimizer, step

    return make


def simple(kind: str) -> Made:
    return of_model(*MODELS[kind], adam)


class Tied(nn.Module):
    """Reads and writes words with the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 16)
        self.mix = nn.Linear(16, 16)
        self.head = nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.head(self.mix(self.mix(self.embed(tokens)).relu_()))
        return scores


class Checkpointed(nn.Module):
    """Computes its first layers once more in the backward pass."""

    def __init__(self, *, use_reentrant: bool) -> None:
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.body = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(16, 3)
        self._use_reentrant = use_reentrant

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = checkpoint(self.body, self.first(inputs), use_reentrant=self._use_reentrant)
        scores: torch.Tensor = self.head(hidden)
        return scores


def words() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(11, (12,))
    return tokens, tokens.roll(1)


def lbfgs() -> Training:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)

    def step() -> torch.Tensor:
        inputs, labels = vectors()

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(inputs), labels)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss

        return optimizer.step(closure)

    return model, optimizer, step


def accumulated() -> Training:
    model, optimizer, _ = simple("cnn")()
    batch = MODELS["cnn"][1]

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        for _ in range(3):
            inputs, labels = batch()
            loss = functional.cross_entropy(model(inputs), labels) / 3
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    return model, optimizer, step


def scaled() -> Training:
    model = mlp()
    optimizer = adam(model)
    scaler = torch.amp.GradScaler("cpu")

    def step() -> torch.Tensor:
        inputs, labels = vectors()
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return model, optimizer, step


def compiled() -> Training:
    return of_model(lambda: torch.compile(mlp(), backend="aot_eager"))()  # type: ignore[arg-type,return-value]


TRAININGS: dict[str, Made] = {
    **{kind: simple(kind) for kind in MODELS},
    "tied": of_model(Tied, words),
    "checkpoint": of_model(lambda: Checkpointed(use_reentrant=False)),
    "reentrant checkpoint": of_model(lambda: Checkpointed(use_reentrant=True)),
    "lbfgs": lbfgs,
    "accumulation": accumulated,
    "scaler": scaled,
    "compiled": compiled,
}


def trained(made: Made, logdir: Path | None, script: Script | None = None, needs: Needs = NOTHING) -> Trained:
    torch.manual_seed(7)
    model, optimizer, step = made()
    losses = []
    if logdir is None:
        losses = [step().item() for _ in range(STEPS)]
    else:
        # Without activations nobody says that those of a compiled model cannot be seen.
        options = {"script": script, "needs": needs, "activations": False}
        with stepped(logdir, model, optimizer, **options) as (script, monitor):
            for _ in range(STEPS):
                loss = step()
                losses.append(loss.item())
                end_step(script, monitor, loss)
    return state_of(model, losses)


@cache
def untouched(kind: str) -> Trained:
    return trained(TRAININGS[kind], None)


def read_everything(script: Script, place: Place) -> None:
    """As somebody who looks at all that there is, at every stop."""
    names = [entry.name for entry in script.bench.entries()]
    assert script.bench.summaries(names).keys() <= set(names)
    script.bench.changes(names)
    for name in names[::3]:
        readable = script.bench.tensor(name)
        readable.summary()
        readable.part(tuple(slice(0, 2) for _ in readable.entry.shape))


@pytest.mark.parametrize("needs", NEEDS.values(), ids=NEEDS.keys())
@pytest.mark.parametrize("kind", TRAININGS)
def test_a_stepped_training_is_the_same_bit_for_bit(kind: str, needs: Needs, logdir: Path) -> None:
    """Whatever is needed, and whatever is read at each stop."""
    look = None if needs.ops else read_everything
    assert_equal(untouched(kind), trained(TRAININGS[kind], logdir, Script(look), needs))
    assert 0 == torch._C._len_torch_dispatch_stack()


@pytest.mark.parametrize("kind", TRAININGS)
def test_needs_that_change_at_every_stop_change_nothing(kind: str, logdir: Path) -> None:
    """Hooks come and go in the middle of layers, operations and backward passes."""
    order = [replace(needs, phases=True) for needs in NEEDS.values()]

    def change(script: Script, place: Place) -> None:
        script.bench.need(order[len(script.places) % len(order)])

    script = Script(change)
    assert_equal(untouched(kind), trained(TRAININGS[kind], logdir, script, ALL))
    assert len(script.places) >= 5 * STEPS
    assert 0 == torch._C._len_torch_dispatch_stack()
