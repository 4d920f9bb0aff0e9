"""Under torch.compile: the same losses and the same graphs, and one sentence about what cannot be seen."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.overrides import TorchFunctionMode

import tb_netdebug as nd
from tb_netdebug.core.records.step import Kind
from tb_netdebug.frameworks.torch.interception import OVERRIDING
from tests.support.loops import OF_PARAMETERS, Recorded, fit, our_warnings

# What torch.compile does without a C++ compiler; hooks meet the same tracer.
BACKEND = "aot_eager"
DEFAULT_BACKEND = "inductor" if shutil.which(os.environ.get("CXX", "g++")) else BACKEND


class Net(nn.Module):
    """Small, with a part that can be compiled by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 16)
        self.second = Block()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.second(torch.relu(self.first(inputs)))
        return outputs


class Block(nn.Module):
    """The second half of it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 3)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.layer(inputs))


@pytest.fixture(autouse=True, params=[False, True], ids=["", "with a class of tensors"])
def _classes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether there is a class of tensors with a `__torch_function__` of its own; some libraries have one."""
    monkeypatch.setattr(OVERRIDING, "look", lambda: None)
    monkeypatch.setattr(OVERRIDING, "exist", request.param)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def train(
    how: str, logdir: Path | None, backend: str = BACKEND
) -> tuple[list[float], dict[str, int], list[str]]:
    """Losses, what the compiler did, and what was said."""
    torch.manual_seed(3)
    model: Any = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    monitor = None

    def watch(which: Any) -> nd.Monitor | None:
        if logdir is None:
            return None
        return nd.watch(which, optimizer, logdir=logdir, run="run", every=2, strict=True, memory=False)

    with our_warnings() as told:
        if how == "watch before":
            monitor = watch(model)
            model = torch.compile(model, backend=backend)
        elif how == "watch after":
            model = torch.compile(model, backend=backend)
            monitor = watch(model)
        elif how == "part":
            model.second = torch.compile(model.second, backend=backend)
            monitor = watch(model)
        else:
            model.compile(backend=backend)
            monitor = watch(model)
        losses = fit(model, optimizer, steps=6, monitor=monitor)
        if monitor is not None:
            monitor.close()
    found = {
        "graphs": counters["stats"]["unique_graphs"],
        "operations": counters["stats"]["calls_captured"],
        "breaks": sum(counters["graph_break"].values()),
    }
    return losses, found, told


@pytest.mark.parametrize(
    ("how", "what", "seen"),
    [
        ("watch before", "the model", set()),
        ("watch after", "the model", set()),
        ("in place", "the model", set()),
        ("part", "second", {"first"}),
    ],
)
def test_compiled_models(how: str, what: str, seen: set[str], logdir: Path) -> None:
    """Nothing is compiled twice and no graph is split; parameters and called layers are recorded."""
    expected, alone, _ = train(how, None)
    torch._dynamo.reset()
    counters.clear()
    losses, watched, told = train(how, logdir)
    assert expected == losses
    assert (alone, 0) == (watched, watched["breaks"])
    (sentence,) = told
    assert sentence.startswith(f"NetDebug: the inside of {what} is not watched: ")
    found = Recorded(logdir / "run")
    assert seen == found.names(Kind.ACTIVATION)
    for kind in OF_PARAMETERS:
        assert {"first.weight", "first.bias", "second.layer.weight", "second.layer.bias"} == found.names(kind)
        assert [0, 2, 4] == list(found.samples(kind, "second.layer.weight"))
    assert expected == found.series("loss")
    assert 6 == len(found.series("gradient_norm"))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_whole_graph(mode: str, logdir: Path) -> None:
    """What is compiled with `fullgraph=True` may hold no call that the compiler cannot follow."""
    model: Any = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with our_warnings(), nd.watch(model, optimizer, logdir=logdir, strict=True) as monitor:
        fit(model, optimizer, steps=2, monitor=monitor)
        state = {name: each.clone() for name, each in model.state_dict().items()}
        compiled = torch.compile(model.train(mode == "train"), backend=BACKEND, fullgraph=True)
        watched = compiled(torch.ones(2, 6))
    alone = Net()
    alone.load_state_dict(state)
    assert torch.equal(torch.compile(alone, backend=BACKEND, fullgraph=True)(torch.ones(2, 6)), watched)


class Doubled(TorchFunctionMode):
    """Of the user's: every product counts twice."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.nn.functional.linear else result


def test_in_a_mode(logdir: Path) -> None:
    """What the compiler makes of it is the same, too."""
    with Doubled():
        expected, alone, _ = train("watch after", None)
        torch._dynamo.reset()
        counters.clear()
        losses, watched, _ = train("watch after", logdir)
    assert (expected, alone) == (losses, watched)


def test_the_default_backend(logdir: Path) -> None:
    """With generated code, too: same losses bit for bit."""
    expected, alone, _ = train("watch after", None, DEFAULT_BACKEND)
    torch._dynamo.reset()
    counters.clear()
    losses, watched, _ = train("watch after", logdir, DEFAULT_BACKEND)
    assert (expected, alone) == (losses, watched)


def test_a_hand_written_optimizer_of_a_compiled_model(logdir: Path) -> None:
    """No call and no optimizer is seen, but the gradients are there."""
    model: Any = Net()
    with our_warnings() as told, nd.watch(model, logdir=logdir, run="run", every=1, strict=True) as monitor:
        compiled = torch.compile(model, backend=BACKEND)
        for _ in range(3):
            model.zero_grad()
            compiled(torch.randn(4, 6)).square().mean().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
            monitor.step()
    assert 1 == len(told)
    for kind in OF_PARAMETERS:
        assert [0, 1, 2] == list(Recorded(logdir / "run").samples(kind, "first.weight"))


def test_export_of_a_watched_model(logdir: Path) -> None:
    """torch.export sees the model as if nobody watched."""
    model = Net()
    inputs = (torch.randn(2, 6),)
    expected = torch.export.export(model, inputs).graph_module.code
    with nd.watch(model, logdir=logdir, every=1, strict=True) as monitor:
        assert expected == torch.export.export(model, inputs).graph_module.code
        monitor.step()
