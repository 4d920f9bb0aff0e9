"""A buffer that the forward pass itself made non-finite is not blamed; one that was so before still is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tests.support.numerics import INF, NAN, facts_told, train

BAD_STEP = 3
MODES = ["sampled", "layers", "ops"]


class Centred(nn.Module):
    """Subtracts a moving average that it keeps in a buffer."""

    average: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.average


class Rebound(Centred):
    """The same, with a new tensor at each call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = x - self.average
        self.average = 0.9 * self.average + 0.1 * x.detach().mean(0)
        return result


class Divided(nn.Module):
    """Divides by the spread of the batch, which is 0 for a constant one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x - x[:1]).abs().sum()


class Logarithm(nn.Module):
    """Keeps the average of its own result, after it has used the average."""

    average: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("average", torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = (x.sum(1, keepdim=True) * self.average).log()
        self.average.mul_(0.9).add_(result.detach().mean(0).abs(), alpha=0.1)
        return result


KEEPING: list[Callable[[int], nn.Module]] = [nn.BatchNorm1d, Centred, Rebound]


def network(keeping: Callable[[int], nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(Divided(), nn.Linear(4, 8), keeping(8), nn.ReLU(), nn.Linear(8, 2))


def batch_with(value: float) -> Callable[[int], Any]:
    def batch(step: int) -> Any:
        x = torch.randn(6, 4)
        if step == BAD_STEP:
            x[0, 0] = value
        return (x,)

    return batch


def constant_batch(step: int) -> Any:
    return (torch.zeros(6, 4) if step == BAD_STEP else torch.randn(6, 4),)


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return facts_told(monkeypatch)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeping", KEEPING)
@pytest.mark.parametrize("value", [NAN, INF])
def test_a_bad_batch_is_named(
    value: float, keeping: Callable[[int], nn.Module], mode: str, logdir: Path, facts: list[dict[str, Any]]
) -> None:
    train(network(keeping), batch_with(value), logdir, steps=BAD_STEP + 2, check_numerics=mode)
    assert (BAD_STEP, "input", "input[0]") == tuple(facts[0][each] for each in ("step", "what", "tensor"))
    (run,) = nd.check(logdir).runs
    roots = {each.rule for each in run.findings if each.cause is None}
    assert {"nonfinite-input"} == {rule for rule in roots if rule.startswith("nonfinite")}
    again = nd.replay(facts[0]["capsule"], network(keeping)).origin
    assert again is not None
    assert ("input", "input[0]") == (again.what, again.tensor)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("keeping", KEEPING)
def test_an_earlier_layer_is_named(
    keeping: Callable[[int], nn.Module], mode: str, logdir: Path, facts: list[dict[str, Any]]
) -> None:
    train(network(keeping), constant_batch, logdir, steps=BAD_STEP + 2, check_numerics=mode)
    named = ("step", "what", "where", "operation", "inputs_finite", "parameters_finite")
    assert (BAD_STEP, "output", "0", "div", True, True) == tuple(facts[0][each] for each in named)
    again = nd.replay(facts[0]["capsule"], network(keeping)).origin
    assert again is not None
    assert ("output", "0", "div") == (again.what, again.where, again.operation)


@pytest.mark.parametrize("mode", MODES)
def test_a_layer_that_ruins_its_own_buffer_is_named(
    mode: str, logdir: Path, facts: list[dict[str, Any]]
) -> None:
    def batches(step: int) -> Any:
        return (torch.full((6, 4), -2.0 if step == BAD_STEP else 2.0),)

    model = nn.Sequential(Logarithm(8), nn.Linear(8, 2))
    train(model, batches, logdir, steps=BAD_STEP + 2, check_numerics=mode)
    named = ("step", "what", "where", "operation")
    assert (BAD_STEP, "output", "0", "log") == tuple(facts[0][each] for each in named)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("keeping", "name"), [(nn.BatchNorm1d, "running_mean"), (Centred, "average"), (Rebound, "average")]
)
def test_a_buffer_written_between_steps_is_named(
    keeping: Callable[[int], nn.Module], name: str, mode: str, logdir: Path, facts: list[dict[str, Any]]
) -> None:
    model = network(keeping)
    model[2].eval()  # a BatchNorm uses its buffers only then

    def batches(step: int) -> Any:
        if step == BAD_STEP:
            with torch.no_grad():
                model[2].get_buffer(name)[1] = NAN
        return (torch.randn(6, 4),)

    train(model, batches, logdir, steps=BAD_STEP + 2, check_numerics=mode)
    named = ("step", "what", "where", "tensor", "parameters_finite")
    assert (BAD_STEP, "parameter", "2", name, False) == tuple(facts[0][each] for each in named)
    again = nd.replay(facts[0]["capsule"], network(keeping)).origin
    assert again is not None
    assert ("parameter", "2", name) == (again.what, again.where, again.tensor)
