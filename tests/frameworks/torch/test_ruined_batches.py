"""Batches whose loss is NaN, on whose gradients a program does or does not step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.checks.finding import Severity
from tests.support.loops import Recorded
from tests.support.zero_code import zero_code

STEPS, BAD = 60, 30

Loop = Callable[[nn.Module, torch.optim.Optimizer], list[float]]


def batches() -> Iterator[tuple[int, torch.Tensor]]:
    """Yield random batches, one of which holds a NaN."""
    for number in range(STEPS):
        inputs = torch.randn(16, 4)
        if number == BAD:
            inputs[3, 2] = math.nan
        yield number, inputs


def differentiate(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def cleared_before(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    losses = []
    for _, inputs in batches():
        optimizer.zero_grad()
        loss = differentiate(model, inputs)
        if loss.isfinite():
            optimizer.step()
            losses.append(loss.item())
    return losses


def cleared_after(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    losses = []
    for _, inputs in batches():
        loss = differentiate(model, inputs)
        if torch.isfinite(loss).all():
            optimizer.step()
            losses.append(loss.item())
        optimizer.zero_grad(set_to_none=False)
    return losses


def clipped_and_cleared(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    losses = []
    for _, inputs in batches():
        optimizer.zero_grad()
        loss = differentiate(model, inputs)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if loss.isfinite():
            optimizer.step()
            losses.append(loss.item())
    return losses


def accumulated(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    losses = []
    for number, inputs in batches():
        losses.append(differentiate(model, inputs).item())
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
    return [first + second for first, second in zip(losses[::2], losses[1::2], strict=True)]


def never_cleared(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[float]:
    for _, inputs in batches():
        if differentiate(model, inputs).isfinite():
            optimizer.step()
            optimizer.zero_grad()
    return []


def train(loop: Loop) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    return loop(model, torch.optim.SGD(model.parameters(), lr=0.01))


def severities(logdir: Path) -> set[Severity]:
    (run,) = nd.check(logdir).runs
    return {each.severity for each in run.findings}


@pytest.mark.parametrize("loop", [cleared_before, cleared_after, clipped_and_cleared])
def test_one_that_is_left_out_is_no_error(loop: Loop, logdir: Path) -> None:
    """It is counted once, and its NaN is not added to the loss of the next batch."""
    expected = train(loop)
    with zero_code(logdir):
        assert expected == train(loop)
    recorded = Recorded(logdir / "run")
    assert expected == pytest.approx(recorded.series("loss"))
    assert {BAD: 1.0} == recorded.scalars["probe/gradients_left_out"]
    assert {Severity.WARNING, Severity.INFO} == severities(logdir)


def test_the_last_one_is_counted_although_none_follows(logdir: Path) -> None:
    """No backward pass shows that it was left out; the end of the program does."""
    torch.manual_seed(0)
    with zero_code(logdir):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for number in range(10):
            optimizer.zero_grad()
            if differentiate(model, torch.full((4, 4), 0.1 if number < 9 else math.nan)).isfinite():
                optimizer.step()
    assert {9: 1.0} == Recorded(logdir / "run").scalars["probe/gradients_left_out"]
    assert Severity.ERROR not in severities(logdir)


@pytest.mark.parametrize("loop", [accumulated, never_cleared])
def test_one_whose_gradients_reach_the_weights_is_an_error(loop: Loop, logdir: Path) -> None:
    """Another backward pass follows without a step, but the bad gradients are still there."""
    with zero_code(logdir):
        train(loop)
    recorded = Recorded(logdir / "run")
    assert "probe/gradients_left_out" not in recorded.scalars or loop is never_cleared
    assert Severity.ERROR in severities(logdir)


def test_the_losses_of_accumulated_batches_are_added_up(logdir: Path) -> None:
    with zero_code(logdir):
        expected = train(accumulated)
    assert expected == pytest.approx(Recorded(logdir / "run").series("loss"), nan_ok=True)


def test_a_step_that_the_program_ends_itself(logdir: Path) -> None:
    """The batch that is left out is a step of its own then."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, on_finding="ignore") as monitor:
        for _, inputs in batches():
            optimizer.zero_grad()
            loss = differentiate(model, inputs)
            if loss.isfinite():
                optimizer.step()
            monitor.step(loss=loss)
    assert {BAD: 1.0} == Recorded(logdir / "run").scalars["probe/gradients_left_out"]
    assert Severity.ERROR not in severities(logdir)


def test_a_closure_belongs_to_the_step_around_it(logdir: Path) -> None:
    """LBFGS differentiates inside its step, and updates the weights whatever the loss is."""
    torch.manual_seed(0)
    with zero_code(logdir):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=4)
        for number in range(10):
            inputs = torch.randn(8, 4)
            inputs[0] = math.nan if number == 5 else 0.0

            def closure(inputs: torch.Tensor = inputs) -> torch.Tensor:
                optimizer.zero_grad()
                return differentiate(model, inputs)

            optimizer.step(closure)  # type: ignore[arg-type]
    assert "probe/gradients_left_out" not in Recorded(logdir / "run").scalars
    assert Severity.ERROR in severities(logdir)
