"""The line at which a loss made a NaN, of an operation between the model and the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import tb_netdebug as nd
from tb_netdebug.frameworks.torch.numerics.loss_lines import LossLines, is_enabled
from tests.support.numerics import facts_told, rows, train

Loss = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return facts_told(monkeypatch)


@pytest.fixture(autouse=True)
def settings_of_torch() -> Iterator[None]:
    """Fails a test that leaves torch's anomaly mode other than it was."""
    yield
    settings = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    assert (False, True) == settings


def bad_in(*bad_steps: int) -> tuple[Loss, list[tuple[bool, float]]]:
    """Return a loss of two lines that makes a NaN in these steps, and what each step has seen."""
    seen: list[tuple[bool, float]] = []

    def loss_of(output: torch.Tensor) -> torch.Tensor:
        scale = 0.0 if len(seen) in bad_steps else 1.0
        shares = torch.log(torch.softmax(output, 1) * scale)  # makes it
        loss = functional.nll_loss(shares, torch.ones(6, dtype=torch.long))
        seen.append((is_enabled(), loss.item()))
        return loss

    return loss_of, seen


def made_at() -> str:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return f"test_loss_lines.py:{next(at for at, line in enumerate(lines, 1) if line.endswith('# makes it'))}"


def test_with_operations_followed(logdir: Path, facts: list[dict[str, Any]]) -> None:
    loss_of, seen = bad_in(1)
    train(nn.Linear(4, 2), rows, logdir, loss_of=loss_of, check_numerics="ops")
    assert [("log", made_at())] == [(fact["operation"], fact["site"]) for fact in facts]
    assert [True, True] == [traced for traced, _ in seen]


def test_after_trouble(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Ordinary steps have no traces; those after a NaN do, and the finding takes the line up."""
    loss_of, seen = bad_in(2, 4)
    model = nn.Linear(4, 2)
    for each in model.parameters():  # a NaN in a gradient does not get into the weights
        each.register_hook(torch.nan_to_num)
    train(model, rows, logdir, loss_of=loss_of, steps=6)
    assert [("log", ""), ("log", made_at())] == [(fact["operation"], fact["site"]) for fact in facts]
    assert [False, False, False, True, True, True] == [traced for traced, _ in seen]
    (run,) = nd.check(logdir).runs
    found = {each.rule: each for each in run.findings}["nonfinite-loss"]
    assert (2, made_at()) == (found.first_step, found.evidence["line"].value)


LABELS = torch.ones(6, 2).index_fill_(0, torch.tensor([3]), float("nan"))
BY_HAND: dict[str, tuple[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]] = {
    "squared": ("sub", lambda output, labels: ((output - labels) ** 2).mean()),  # given
    "absolute": ("sub", lambda output, labels: (output - labels).abs().mean()),  # given
    "nothing kept": ("sub", lambda output, labels: (output - labels).mean()),  # given
    "kept": ("mul", lambda output, labels: -(labels * torch.log_softmax(output, 1)).sum()),  # given
    "under a root": ("sub", lambda output, labels: torch.sqrt(output.abs() - labels).mean()),  # given
    "an exponential": ("sub", lambda output, labels: torch.exp(output - labels).mean()),  # given
    "a constant": ("", lambda output, labels: (output + 1e-8 - labels).mean()),  # given
    "unknown beside": ("sub", lambda output, labels: (torch.special.i0e(output) - labels).sum()),  # given
    "another term": ("sub", lambda output, labels: (output - labels).mean() + output.square().sum()),  # given
}


@pytest.mark.parametrize("mode", ["sampled", "ops"])
@pytest.mark.parametrize("name", BY_HAND)
def test_labels_that_a_loss_by_hand_is_given(
    name: str, mode: str, logdir: Path, facts: list[dict[str, Any]]
) -> None:
    """Neither the loss nor a layer has made the NaN; with operations followed, the line is known, too."""
    operation, function = BY_HAND[name]

    def loss_of(output: torch.Tensor) -> torch.Tensor:
        labels = LABELS
        return function(output, labels)

    def backward_of(output: torch.Tensor) -> torch.Tensor:
        labels = LABELS  # a loop of one's own has them in a variable
        loss = loss_of(output)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach() * labels.nan_to_num().sum()

    model = nn.Linear(4, 2)
    with nd.watch(
        model, logdir=logdir, run="run", on_finding="ignore", check_numerics=mode, strict=True
    ) as monitor:
        monitor.step(loss=backward_of(model(*rows(0))))
    (told,) = facts
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    at = next(at for at, line in enumerate(lines, 1) if f'"{name}": ' in line and line.endswith("# given"))
    line = f"test_loss_lines.py:{at}" if mode == "ops" else ""
    expected = ("loss", "operand", operation, "labels", line)
    assert expected == tuple(told[each] for each in ("what", "tensor", "operation", "variable", "site"))
    (finding,) = (each for each in nd.check(logdir).runs[0].findings if each.rule == "nonfinite-loss")
    assert ("`labels`, which no layer made, was not finite, given to sub" in finding.message) == (
        operation == "sub"
    )
    assert ("check_numerics" in finding.message) == (mode != "ops")
    assert "Clean the data" in finding.advice


@pytest.mark.parametrize(
    "function",
    [
        lambda output, scale: (torch.log(output.abs() * scale) - scale).mean(),
        lambda output, scale: torch.sqrt(-output.abs() - 1.0).mean(),
        lambda output, scale: (output / (output * scale)).mean(),
    ],
)
def test_what_a_loss_makes_itself_is_no_operand(
    function: Callable[[torch.Tensor, float], torch.Tensor], logdir: Path, facts: list[dict[str, Any]]
) -> None:
    train(nn.Linear(4, 2), rows, logdir, loss_of=lambda output: function(output, 0.0), steps=1)
    assert [("loss", "", "")] == [(fact["what"], fact["tensor"], fact["variable"]) for fact in facts]
    assert facts[0]["operation"] in ("log", "sqrt", "div")


def test_a_mode_that_is_on_is_not_advised(logdir: Path, facts: list[dict[str, Any]]) -> None:
    """Even where it has not found the line."""

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, given: torch.Tensor) -> torch.Tensor:
            return given * float("nan")

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return gradients[0]

    train(nn.Linear(4, 2), rows, logdir, loss_of=lambda output: Own.apply(output).sum(), check_numerics="ops")
    (finding,) = (each for each in nd.check(logdir).runs[0].findings if each.rule == "nonfinite-loss")
    assert "its line is not known: backward is called at" in finding.message


def test_the_same_losses(logdir: Path) -> None:
    """With traces and without."""
    losses = []
    for options in ({}, {"check_numerics": "ops"}):
        torch.manual_seed(0)
        loss_of, seen = bad_in()
        train(nn.Linear(4, 2), rows, logdir, loss_of=loss_of, steps=4, **options)
        losses.append([loss for _, loss in seen])
    assert losses[0] == losses[1]


def test_anomaly_mode_of_the_user() -> None:
    """It stays as the user has it, whether it was on before or is switched on in between."""
    lines = LossLines(always=True)
    with torch.autograd.set_detect_anomaly(True):
        lines.begin()
        lines.end()
        assert (True, True) == (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    lines.begin()
    torch.autograd.set_detect_anomaly(True)
    lines.end()
    assert (True, True) == (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    torch.set_anomaly_enabled(False)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("check_nan", [True, False])
@pytest.mark.parametrize(
    "how", [torch.autograd.detect_anomaly, partial(torch.autograd.set_detect_anomaly, True)]
)
def test_a_mode_of_the_user_around_the_backward_pass(how: Callable[..., Any], check_nan: bool) -> None:
    """It finds the settings of the user, is on inside, and puts them back; nobody sees ours."""
    lines = LossLines(always=True)
    for _ in range(2):
        lines.begin()
        assert is_enabled()
        assert (False, True) == (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        with how(check_nan=check_nan):
            lines.end()
            assert (True, check_nan) == (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        assert not is_enabled()
        lines.end_step()
    assert torch.is_anomaly_enabled is is_enabled


def test_traces_end_by_themselves() -> None:
    """A step without a backward pass leaves none on, and so many steps later nothing is traced any more."""
    lines = LossLines(always=False)
    lines.arm()
    steps = 0
    lines.begin()
    while is_enabled():
        lines.end_step()
        lines.begin()
        steps += 1
    assert 64 == steps
