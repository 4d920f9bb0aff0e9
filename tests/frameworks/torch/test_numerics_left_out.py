"""Batches that a program leaves out itself because their loss is not finite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.checks.finding import Finding, Severity
from tb_netdebug.frameworks.torch.numerics.inquiry import Inquiry
from tests.support.numerics import NAN, Between, facts_told
from tests.support.zero_code import zero_code

BAD_STEP = 2
NOT_REACHED = "No backward pass followed: this batch did not reach the weights."


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the probe tells, with the step in which it tells it."""
    return facts_told(monkeypatch)


def log_of(x: torch.Tensor) -> torch.Tensor:
    return torch.log(x)


def with_cross_entropy(output: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(output, torch.zeros(6, dtype=torch.long))


def by_hand(output: torch.Tensor) -> torch.Tensor:
    return output.square().mean()


def skipping(
    model: nn.Module, loss_of: Callable[[torch.Tensor], torch.Tensor], monitor: nd.Monitor | None = None
) -> list[float]:
    """Train five batches on positive inputs but for one, whose loss is left out; return the others' losses.

    Only some of the programs that do so tell their monitor of such a loss.
    """
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for step in range(5):
        optimizer.zero_grad()
        loss = loss_of(model(torch.full((6, 4), -1.0 if step == BAD_STEP else 1.0)))
        if not loss.isfinite():
            if monitor is not None:
                monitor.step(loss=loss)
            continue
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
        if monitor is not None:
            monitor.step(loss=loss)
    return losses


def logarithmic() -> nn.Module:
    """NaN for negative inputs."""
    torch.manual_seed(0)
    model = Between(log_of)
    nn.init.eye_(model.first.weight)
    nn.init.zeros_(model.first.bias)
    return model


def found(logdir: Path) -> dict[str, Finding]:
    (run,) = nd.check(logdir).runs
    return {finding.rule: finding for finding in run.findings}


@pytest.mark.parametrize("loss_of", [with_cross_entropy, by_hand])
def test_a_loss_that_a_program_leaves_out(
    loss_of: Callable[[torch.Tensor], torch.Tensor], logdir: Path, facts: list[dict[str, Any]]
) -> None:
    """A program that is not changed for us shows it by what the model and its loss function return."""
    with zero_code(logdir):
        losses = skipping(logarithmic(), loss_of)
    assert 4 == len(losses)
    (fact,) = facts
    assert (BAD_STEP, "output", "Between", "log") == tuple(
        fact[key] for key in ("step", "what", "where", "operation")
    )
    assert fact["left_out"] is True
    assert "test_numerics_left_out.py" == fact["site"].partition(":")[0]
    assert Path(fact["capsule"]).is_file()
    finding = found(logdir)["nonfinite-activation"]
    assert "warning" == finding.severity.text
    assert NOT_REACHED in finding.message
    assert "log at test_numerics_left_out.py" in finding.message
    assert fact["capsule"] in finding.advice


@pytest.mark.parametrize("loss_of", [with_cross_entropy, by_hand])
def test_leaving_out_is_not_disturbed(loss_of: Callable[[torch.Tensor], torch.Tensor], logdir: Path) -> None:
    """The same losses, bit for bit, as without us."""
    expected = skipping(logarithmic(), loss_of)
    with zero_code(logdir):
        assert expected == skipping(logarithmic(), loss_of)


def test_a_loss_that_is_told_without_a_backward_pass(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """It is not said that weights take up what nothing carries to them."""
    model = logarithmic()
    options: dict[str, Any] = {"on_finding": "ignore", "strict": True, "memory": False}
    with nd.watch(model, logdir=logdir, run="run", **options) as monitor:
        skipping(model, by_hand, monitor)
    (fact,) = facts
    assert (BAD_STEP, "Between", True) == (fact["step"], fact["where"], fact["left_out"])
    loss = found(logdir)["nonfinite-loss"]
    assert ("warning", BAD_STEP, BAD_STEP) == (loss.severity.text, loss.first_step, loss.last_step)
    assert NOT_REACHED in loss.message
    assert "it writes NaN" not in loss.message
    assert "nonfinite-activation" == loss.cause


def test_a_loss_that_makes_it_itself(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """The model's output is finite: its loss is known as it is told."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        for step in range(3):
            loss = model(torch.ones(6, 4)).mean()
            if step == 1:
                monitor.step(loss=torch.log(-loss.abs()))
                continue
            loss.backward()
            monitor.step(loss=loss)
    (fact,) = facts
    assert ("loss", "log", True) == (fact["what"], fact["operation"], fact["left_out"])
    assert NOT_REACHED in found(logdir)["nonfinite-loss"].message


def test_a_loss_that_is_differentiated_is_not_left_out(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A step may take its gradients by another way than backward()."""
    model = logarithmic()
    with nd.watch(model, logdir=logdir, run="run", on_finding="ignore", strict=True) as monitor:
        loss = model(torch.full((6, 4), -1.0)).mean()
        torch.autograd.grad(loss, list(model.parameters()))
        monitor.step(loss=loss)
    assert [False] == [fact["left_out"] for fact in facts]
    rules = found(logdir)
    assert {"error"} == {rules[rule].severity.text for rule in ("nonfinite-loss", "nonfinite-activation")}


def test_values_that_are_meant(
    logdir: Path, facts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that replaces them and trains on the rest is asked about twice, and never again."""
    asked = []
    original = Inquiry.ask
    monkeypatch.setattr(Inquiry, "ask", lambda *args: asked.append(1) or original(*args))  # type: ignore
    torch.manual_seed(0)

    class Ragged(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            rows = super().forward(input)
            return torch.where(torch.arange(len(rows))[:, None] < 4, rows, NAN)

    with zero_code(logdir):
        model = Ragged(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            output = model(torch.randn(6, 4))
            torch.where(output.isnan(), 0.0, output).square().mean().backward()
            optimizer.step()
    assert [] == facts
    assert 2 == len(asked)


def test_all_that_follow_are_left_out(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """A program that never gets to another step still has it told, when the run ends."""
    with zero_code(logdir):
        model = logarithmic()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for sign in (1.0, -1.0, -1.0):
            loss = by_hand(model(torch.full((6, 4), sign)))
            if loss.isfinite():
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            optimizer.zero_grad()
    (fact,) = facts
    assert ("Between", "log", True) == (fact["where"], fact["operation"], fact["left_out"])
    assert NOT_REACHED in found(logdir)["nonfinite-activation"].message


def test_bad_rows_that_come_again_and_again(logdir: Path) -> None:
    """Also of batches that nobody asks about any more, sampled layers and inputs are no errors."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    left_out = 0
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, on_finding="ignore") as monitor:
        for step in range(40):
            inputs = torch.randn(6, 4)
            if step % 5 == BAD_STEP:
                inputs[0, 0] = NAN
            loss = by_hand(model(inputs))
            if not loss.isfinite():
                left_out += 1
                continue
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            monitor.step(loss=loss)
    assert 8 == left_out
    (run,) = nd.check(logdir).runs
    assert "suspect" == run.verdict
    assert {"nonfinite-input", "nonfinite-activation"} == {each.rule for each in run.findings}
    assert all(NOT_REACHED in each.message for each in run.findings)


@pytest.mark.parametrize(
    ("bad", "rule"), [(-1.0, "nonfinite-activation"), (NAN, "nonfinite-input")], ids=["forward", "input"]
)
def test_a_step_that_a_scaler_skips(bad: float, rule: str, logdir: Path) -> None:
    """Its batch did not reach the weights: no error, and no fault of the learning rate, high as it is."""

    class OfLogarithms(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return super().forward(torch.log(input))

    torch.manual_seed(0)
    model = OfLogarithms(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1) as monitor:
        for step in range(30):
            optimizer.zero_grad()
            positive = 1 + torch.rand(16, 4)
            output = model(positive * (bad if step == BAD_STEP else 1.0))
            loss = (output - positive.log().sum(1, keepdim=True)).square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            monitor.step(loss=loss)
    (run,) = nd.check(logdir).runs
    found = {each.rule: each for each in run.findings}
    assert ("suspect", 30) == (run.verdict, run.steps), found
    assert {rule} == {each.rule for each in run.findings if each.severity > Severity.INFO and not each.cause}
    assert "The gradient scaler skipped this step: it did not reach the weights." in found[rule].message
