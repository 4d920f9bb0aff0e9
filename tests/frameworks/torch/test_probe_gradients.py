"""What is told of gradients, and of outputs that nobody uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tests.support.loops import hooks_of, mlp, vectors
from tests.support.probed import BODY, HEAD, backward, learn, learned, probed, sgd


class WithSpare(nn.Module):
    """`spare` is computed and thrown away, `never` is not even called, `quiet` runs without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet = nn.Linear(6, 6)
        self.spare = nn.Linear(6, 3)
        self.head = nn.Linear(6, 3)
        self.never = nn.Linear(2, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            hidden = self.quiet(inputs)
        self.spare(hidden)
        scores: torch.Tensor = self.head(hidden)
        return scores


def test_healthy_gradients(logdir: Path) -> None:
    """Told once, and never again."""
    model = mlp()
    (told,) = learned(logdir, model, sgd(model)).facts["gradients"]
    assert (0, [], False) == (told[0], told[1]["none"], told[1]["detached"])


def test_outputs_that_nobody_uses(logdir: Path) -> None:
    """Names of parameters without gradients, and why."""
    model = WithSpare()
    found = learned(logdir, model, sgd(model))
    without = [f"{name}.{own}" for name in ("quiet", "spare", "never") for own in ("weight", "bias")]
    first = next((step, told) for step, told in found.facts["gradients"] if told["none"])
    assert (1, without, 2) == (first[0], first[1]["none"], first[1]["steps"])
    told = first[1]
    assert (["spare"], ["quiet"], ["never"]) == (
        told["called"],
        told["called_without_grad"],
        told["uncalled"],
    )
    assert not told["detached"]
    assert [(1, {"names": ["spare"]})] == found.facts["ignored-outputs"]
    assert [0] * 4 == [hooks_of(each)[0] for each in model.children()]


@pytest.mark.parametrize("how", ["detached", "no backward"])
def test_no_gradient_anywhere(how: str, logdir: Path) -> None:
    """The loss does not lead back to the model, or `backward` is never called."""
    model = mlp()
    optimizer = sgd(model)

    def body(step: int) -> torch.Tensor:
        inputs, labels = vectors()
        loss = functional.cross_entropy(model(inputs).detach().requires_grad_(), labels)
        if how == "detached":
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss

    found = probed(logdir, model, optimizer, body)
    assert [(1, True, 2), (3, True, 4)] == [
        (step, told["detached"], told["steps"]) for step, told in found.facts["gradients"]
    ]
    assert BODY + HEAD == found.last("gradients")["none"]
    assert "ignored-outputs" not in found.facts


class Skipping(nn.Module):
    """Its second block is left out in three steps of four."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.head = nn.Linear(6, 3)
        self.step = 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.step += 1
        for block in self.blocks[: 2 if self.step % 4 == 0 else 1]:
            inputs = block(inputs).relu()
        scores: torch.Tensor = self.head(inputs)
        return scores


def test_blocks_that_are_skipped(logdir: Path) -> None:
    """Without gradients because they were not called: the fact says so at once, and then no more."""
    model = Skipping()
    found = learned(logdir, model, sgd(model), steps=12)
    second = ["blocks.1.weight", "blocks.1.bias"]
    assert [(0, [], None), (1, second, ["blocks.1"]), (3, [], [])] == [
        (step, told["none"], told.get("uncalled")) for step, told in found.facts["gradients"]
    ]
    assert "ignored-outputs" not in found.facts


def test_parts_that_learn_now_and_then(logdir: Path) -> None:
    """A second head with a task that comes up in every fourth step: not told any more once it has."""
    body, heads = nn.Linear(6, 4), nn.ModuleList([nn.Linear(4, 3), nn.Linear(4, 3)])
    model = nn.ModuleDict({"body": body, "heads": heads})
    optimizer = sgd(model)

    def step_of(step: int) -> torch.Tensor:
        optimizer.zero_grad()
        loss = heads[step % 4 == 3](body(torch.randn(8, 6))).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    found = probed(logdir, model, optimizer, step_of, steps=12)
    second = ["heads.1.weight", "heads.1.bias"]
    assert [(0, []), (1, second), (3, [])] == [
        (step, told["none"]) for step, told in found.facts["gradients"]
    ]


def test_gradients_made_by_a_closure(logdir: Path) -> None:
    """LBFGS computes them while it steps."""
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        return backward(model).detach()

    found = probed(logdir, model, optimizer, lambda step: optimizer.step(closure))
    assert [[]] == [told["none"] for _, told in found.facts["gradients"]]


@pytest.fixture
def spare(logdir: Path) -> Iterator[WithSpare]:
    model = WithSpare()
    before = hooks_of(model)
    yield model
    assert before == hooks_of(model)


def test_nothing_is_left(spare: WithSpare, logdir: Path) -> None:
    """Closed in the one step in which calls are watched, and while gradients are waited for."""
    optimizer = sgd(spare)
    monitor = nd.watch(spare, optimizer, logdir=logdir, memory=False, strict=True, on_finding="ignore")
    for _ in range(2):
        monitor.step(learn(spare, optimizer, *vectors()))
    monitor.close()
    monitor = nd.watch(spare, logdir=logdir, run="idle", memory=False, strict=True, on_finding="ignore")
    for _ in range(3):
        monitor.step(backward(spare))
        spare.zero_grad()
    monitor.close()
    assert not any(each._post_accumulate_grad_hooks for each in spare.parameters())
