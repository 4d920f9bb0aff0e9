"""Searching for the first NaN or infinity of a training changes nothing, and does not always work."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tests.support.loops import assert_equal, hooks_of, our_warnings, state_of
from tests.support.numerics import NAN, Between, Inside, facts_told, rows, train


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the probe tells, with the step in which it tells it."""
    return facts_told(monkeypatch)


# ---- nothing changes --------------------------------------------------------------------------------------


class Eventful(nn.Module):
    """Everything that a forward pass can leave behind."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 8, max_norm=0.5)
        self.norm, self.dropout = nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.spectral = nn.utils.spectral_norm(nn.Linear(8, 8))
        self.modern = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
        self.head = nn.Linear(8, 2)
        self.register_buffer("calls", torch.zeros(()))
        self.state: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        noise = random.random() + float(np.random.rand())
        hidden = self.dropout(self.norm(self.embedding(x))) + noise * torch.rand(8)
        hidden = self.modern(torch.relu(self.spectral(hidden)))
        self.state = hidden.detach()
        result: torch.Tensor = self.head(hidden)
        return result


@pytest.mark.parametrize("options", [None, {}, {"check_numerics": "layers"}, {"check_numerics": "ops"}])
@pytest.mark.parametrize("mode", [True, False])
def test_nothing_changes(options: dict[str, Any] | None, mode: bool, logdir: Path) -> None:
    """The loss of one step in three is NaN, its gradients are left out: weights and random numbers agree."""

    def run(options: dict[str, Any] | None) -> Any:
        torch.manual_seed(5)
        random.seed(5)
        np.random.seed(5)
        model = Eventful().train(mode)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        monitor = None
        if options is not None:
            monitor = nd.watch(
                model, optimizer, logdir=logdir, run="run", strict=True, on_finding="ignore", **options
            )
        losses = []
        for step in range(7):
            optimizer.zero_grad()
            output = model(torch.randint(7, (6,)))
            loss = functional.cross_entropy(output, torch.randint(2, (6,)))
            if step % 3 == 1:
                loss = loss + torch.log(-output.abs()).mean()
            losses.append(repr(loss.item()))
            loss.backward()  # type: ignore[no-untyped-call]
            if step % 3 != 1:
                optimizer.step()
            if monitor is not None:
                monitor.step(loss=loss)
        if monitor is not None:
            monitor.close()
        drawn = [repr(random.random()), repr(float(np.random.rand()))]
        assert model.state is not None
        return state_of(model, [*losses, *drawn, repr(model.state.sum().item())]), hooks_of(model)  # type: ignore[list-item]

    before, after = run(None), run(options)
    before[0].gradients, after[0].gradients = {}, {}
    assert_equal(before[0], after[0])
    assert before[1] == after[1]


def test_the_buffers_of_a_graph_may_not_be_touched(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A backward pass that needs a buffer as it was still runs after the search."""
    torch.manual_seed(0)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("scale", torch.ones(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.scale.mul_(1.5)
            return torch.log(-(self.linear(x) * self.scale).abs())

    model = Scaled()
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        loss = model(torch.randn(2, 4)).mean()
        loss.backward()
        monitor.step(loss=loss)
    assert "log" == facts[0]["operation"]
    assert torch.equal(torch.full((4,), 1.5), model.scale)


def test_the_batch_is_not_written_to_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A model that works in place gets copies."""
    x = torch.full((2, 4), 2.0)

    class Doubling(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.log(-self.linear(x.mul_(2.0)).abs())

    train(Doubling(), lambda _: (x,), logdir, steps=1)
    assert "log" == facts[0]["operation"]
    assert torch.equal(torch.full((2, 4), 4.0), x)


class Talkative(nn.Linear):
    """Prints in each forward pass, as people who look for a NaN do, and lets another thread print as well."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        print("forward")  # noqa: T201
        print("to the other stream", file=sys.stderr)  # noqa: T201
        other = threading.Thread(target=print, args=["of another thread"])
        other.start()
        other.join()
        return super().forward(input) + NAN


def test_what_is_printed_is_printed_once(
    logdir: Path, facts: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Other threads are heard while the batch is repeated."""
    streams = sys.stdout, sys.stderr
    train(Talkative(4, 1), rows, logdir, steps=1)
    told = capsys.readouterr()
    assert [0] == [fact["step"] for fact in facts]
    assert (1, 1) == (told.out.count("forward"), told.err.count("to the other stream"))
    assert 2 == told.out.count("of another thread")
    assert streams == (sys.stdout, sys.stderr)


COLLECTED: list[torch.Tensor] = []


def test_what_hooks_and_code_have_collected(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Lists and dictionaries that are filled by hooks or by `forward` get nothing from the search."""
    near: dict[str, list[torch.Tensor]] = {"outputs": []}

    class Store:
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def hook(self, *given: Any) -> None:
            self.seen.append(given)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.cache: dict[str, Any] = {"all": []}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            COLLECTED.append(x)
            self.cache["all"].append(x)
            return torch.log(-self.linear(x).abs())

    COLLECTED.clear()
    model, store = Net(), Store()
    model.linear.register_forward_hook(lambda _, __, output: near["outputs"].append(output))
    model.linear.register_forward_pre_hook(store.hook)
    train(model, rows, logdir, steps=2)
    assert "log" == facts[0]["operation"]
    assert [2] * 4 == [len(COLLECTED), len(near["outputs"]), len(store.seen), len(model.cache["all"])]


def test_values_from_nowhere(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """What torch does not see being made is at least said of the module that puts it out."""

    class Outside(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            result = x.clone()
            result.numpy()[:] = NAN
            return result

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return gradient

    train(Between(Outside.apply), rows, logdir, steps=1)
    assert ("output", "NaN", "") == (facts[0]["what"], facts[0]["kind"], facts[0]["why_not"])


def test_evaluations_and_losses_of_the_search_are_not_counted(logdir: Path) -> None:
    """No probe takes the repeated forward pass for one of the user's."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    seen: list[dict[str, float]] = []
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        loss = torch.log(-model(torch.randn(2, 4)).abs()).mean()
        loss.backward()
        seen.append(dict(monitor._collector.scalars))
        monitor.step(loss=loss)
    assert not seen[0].get("probe/evaluations")


# ---- what cannot be repeated ------------------------------------------------------------------------------


def test_autocast_is_on_again_in_the_search(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """An overflow of float16 does not happen in float32; the backward pass begins outside of autocast."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    for layer in (model[0], model[1]):
        nn.init.constant_(layer.weight, 300.0)
        nn.init.zeros_(layer.bias)
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        with torch.autocast("cpu", torch.float16):
            loss = model(torch.ones(2, 4)).float().mean()
        loss.backward()
        monitor.step(loss=loss)
    assert ("1", "Inf", "") == (facts[0]["where"], facts[0]["kind"], facts[0]["why_not"])


def test_a_model_that_differentiates(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Forces are gradients of an energy: such a pass is repeated with gradients, and leaves none."""
    torch.manual_seed(0)

    class Forces(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x.detach().requires_grad_()
            (force,) = torch.autograd.grad(self.linear(x).tanh().sum(), x, create_graph=True)
            return torch.log(-force.abs())

    train(Forces(), rows, logdir, steps=1, check_numerics="sampled")
    assert ("output", "log", "") == (facts[0]["what"], facts[0]["operation"], facts[0]["why_not"])


@pytest.mark.parametrize("is_reentrant", [True, False])
def test_activation_checkpointing(is_reentrant: bool, logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Modules that are called again in backward are named like all others."""
    torch.manual_seed(0)

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.block = nn.Linear(4, 4), Between(torch.log)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = torch.utils.checkpoint.checkpoint(
                self.block, self.first(x), use_reentrant=is_reentrant
            )
            return result

    train(Checkpointed(), rows, logdir, steps=1)
    assert ("block", "log", "") == (facts[0]["where"], facts[0]["operation"], facts[0]["why_not"])


def test_a_model_that_cannot_be_called_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """The reason is told, and that its output was not finite."""

    class Once(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.numbers = itertools.count()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if next(self.numbers):
                raise ValueError("only once")
            return torch.log(-self.linear(x).abs())

    train(Once(), rows, logdir, steps=1)
    assert ("output", "Once") == (facts[0]["what"], facts[0]["where"])
    assert "ValueError: only once" in facts[0]["why_not"]


def test_a_model_that_talks_to_others_is_not_called_again(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Other processes would not answer, and ours would wait for them."""

    class Talking(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 1)
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.linear(x)
            torch.distributed.all_reduce(y.detach())
            return torch.log(-y.abs())

    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        train(Talking(), rows, logdir, steps=1)
    finally:
        torch.distributed.destroy_process_group()
    assert "talks to other processes" in facts[0]["why_not"]


def test_a_compiled_model_is_followed_uncompiled(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """And is not compiled again because of it."""
    torch._dynamo.reset()
    compilations: list[int] = []

    def count(graph: Any, _: Any) -> Any:
        compilations.append(1)
        return graph

    torch.manual_seed(0)
    model = torch.compile(Inside(torch.log), backend=count)
    with our_warnings():
        train(model, rows, logdir, steps=4, strict=False)  # type: ignore[arg-type]
    assert ("blocks.1", "log") == (facts[0]["where"], facts[0]["operation"])
    assert [1] == compilations


def test_a_model_compiled_in_place(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Nothing of it is seen, and that is said."""
    torch._dynamo.reset()
    model = Inside(torch.log)
    model.compile(backend="eager")
    with our_warnings():
        train(model, rows, logdir, steps=2, strict=False)
    assert "loss" == facts[0]["what"]
    assert "no call of the model was seen" == facts[0]["why_not"]
