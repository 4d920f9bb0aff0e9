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
from tb_netdebug.capture.pytorch.numerics.loss_lines import LossLines, is_enabled
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
