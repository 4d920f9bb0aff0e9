"""A weight that held NaN or infinity before a step: it is told as such, and explains the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.checks.finding import Finding
from tb_netdebug.core.eventlog.writer import WriterWarning
from tb_netdebug.frameworks.torch.numerics.capsule_file import load_capsule
from tb_netdebug.recording.governor import Governor
from tests.support.numerics import INF, NAN

BAD_STEP = 3


def findings(logdir: Path, mode: str, write: Callable[[nn.Module], None], every: int) -> dict[str, Finding]:
    """Of a training in which somebody writes into a weight between two steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(
        model, optimizer, logdir=logdir, run="run", on_finding="ignore", check_numerics=mode, every=every
    ) as monitor:
        for step in range(BAD_STEP + 3):
            if step == BAD_STEP:
                with torch.no_grad():
                    write(model)
            optimizer.zero_grad()
            loss = (model(torch.randn(6, 4)) - 1.0).square().mean()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            monitor.step(loss=loss)
    (run,) = nd.check(logdir).runs
    return {each.rule: each for each in run.findings}


@pytest.mark.parametrize("mode", ["sampled", "layers", "ops"])
@pytest.mark.parametrize(("layer", "value", "made"), [(0, INF, "infinite values"), (2, NAN, "NaN")])
@pytest.mark.parametrize("every", [1, 100])
def test_written_by_hand(layer: int, value: float, made: str, mode: str, every: int, logdir: Path) -> None:
    """No layer is blamed; the step of the finding is that of its capsule, which holds the weight."""

    def write(model: nn.Module) -> None:
        model[layer].weight[0, 1] = value  # type: ignore[index]

    found = findings(logdir, mode, write, every)
    told = found["nonfinite-weight"]
    assert (BAD_STEP, None, [f"{layer}.weight"]) == (told.first_step, told.cause, told.where)
    assert told.message.startswith(
        f"`weight` of layer {layer} (Linear) held {made} before the forward pass of step {BAD_STEP}"
    )
    assert f"The gradients of step {BAD_STEP - 1} were finite" in told.message
    assert "nonfinite-activation" not in found
    assert {"nonfinite-weight"} == {each.cause for each in found.values() if each is not told}
    capsule = load_capsule(str(told.evidence["capsule"].value))
    assert BAD_STEP == capsule["step"]
    assert not capsule["models"][""][f"{layer}.weight"].isfinite().all()
    assert f"`weight` of layer {layer} (Linear), which held {made}" in found["nonfinite-loss"].message


@pytest.mark.parametrize("is_by_hand", [True, False])
def test_an_update_is_told_from_code_between_steps(
    is_by_hand: bool, logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the optimizer keeps, where nobody has looked at the gradients."""
    monkeypatch.setattr(Governor, "next", lambda self, **_: False)
    monkeypatch.setattr(Governor, "norm_is_due", lambda self: False)
    monkeypatch.setattr(Governor, "glance_is_due", lambda self: False)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters())
    with nd.watch(model, optimizer, logdir=logdir, run="run", on_finding="ignore") as monitor:
        for step in range(BAD_STEP + 2):
            if step == BAD_STEP and is_by_hand:
                nn.init.constant_(model.weight, NAN)
            output = model(torch.ones(6, 4))
            is_bad = step == BAD_STEP - 1 and not is_by_hand
            loss = (output * 0.0).square().sqrt().mean() if is_bad else output.square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    (told,) = (each for each in nd.check(logdir).runs[0].findings if each.rule == "nonfinite-weight")
    assert told.message.startswith(
        f"`weight` of Linear (Linear) held NaN before the forward pass of step {BAD_STEP}"
    )
    by_update = f"The update of step {BAD_STEP - 1} wrote it, from a gradient that was not finite"
    assert is_by_hand == (by_update not in told.message)


def damaged_by_a_step(
    optimizer_of: Callable[[list[nn.Parameter]], torch.optim.Optimizer], logdir: Path
) -> Finding:
    """Of a training with finite gradients, those of two of the weights always 0."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = optimizer_of(list(model.parameters()))
    given = torch.ones(6, 4)
    given[:, 2:] = 0.0
    with nd.watch(model, optimizer, logdir=logdir, run="run", on_finding="ignore", every=1) as monitor:
        for _ in range(3):
            loss = model(given).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            monitor.step(loss=loss)
    (told,) = (each for each in nd.check(logdir).runs[0].findings if each.rule == "nonfinite-weight")
    return told


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RMSprop", "Adagrad", "Adadelta", "Adamax"])
def test_an_optimizer_that_divides_by_zero_is_told_from_code_between_steps(name: str, logdir: Path) -> None:
    told = damaged_by_a_step(lambda weights: getattr(torch.optim, name)(weights, lr=1e-3, eps=0), logdir)
    assert f"The optimizer's own update of step 0 wrote it: {name} has eps=0" in told.message
    assert told.advice.startswith(f"Give {name} an eps above 0")
    assert "between" not in f"{told.message} {told.advice}"


@pytest.mark.parametrize(("rate", "shown"), [(INF, "infinit"), (NAN, "NaN")])
def test_a_learning_rate_that_is_no_number_is_named(rate: float, shown: str, logdir: Path) -> None:
    with warnings.catch_warnings(record=True) as warned:
        told = damaged_by_a_step(lambda weights: torch.optim.SGD(weights, lr=rate), logdir)
    assert f"The update of step 0 wrote it: its learning rate was {shown}" in told.message
    assert [] == [each for each in warned if issubclass(each.category, WriterWarning)]  # it is stored
    assert told.advice.startswith("Look at what sets the learning rate")
    assert "learning-rate-zero" not in {each.rule for each in nd.check(logdir).runs[0].findings}
