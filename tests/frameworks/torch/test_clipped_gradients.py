"""Batches that a program leaves out itself because the norm of their gradients is not finite."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest
import torch
from torch import nn

import tb_netdebug as nd
from tb_netdebug.checks.finding import Severity
from tests.support.loops import Recorded
from tests.support.zero_code import zero_code

STEPS = 60
SOME, ONE, LATE, ALL = range(4, STEPS, 3), [30], range(20, STEPS), range(STEPS)


def train(left_out: Collection[int], kept: list[torch.optim.Optimizer] | None = None) -> list[float]:
    """Leave out batches whose loss is finite and has no finite slope; return the losses of the others.

    An optimizer that is not `kept` ends its training when it goes.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    if kept is not None:
        kept.append(optimizer)
    for number in range(STEPS):
        inputs = torch.randn(16, 4)
        outputs = model(inputs)
        loss = nn.functional.mse_loss(outputs, inputs.sum(1, keepdim=True))
        if number in left_out:
            loss = loss + (outputs - outputs).abs().sqrt().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if norm.isfinite():
            optimizer.step()
            losses.append(loss.item())
        optimizer.zero_grad()
    return losses


def found(logdir: Path) -> dict[str, Severity]:
    (run,) = nd.check(logdir).runs
    return {each.rule: each.severity for each in run.findings}


@pytest.mark.parametrize(
    ("left_out", "severity"), [(SOME, Severity.WARNING), (ONE, Severity.INFO)], ids=["some", "one"]
)
def test_they_are_told_by_their_share(left_out: Collection[int], severity: Severity, logdir: Path) -> None:
    """The losses of the others are what they are without them."""
    expected = train(left_out)
    with zero_code(logdir):
        assert expected == train(left_out)
    recorded = Recorded(logdir / "run")
    assert expected == pytest.approx(recorded.series("loss"))
    assert float(len(left_out)) == sum(recorded.series("probe/gradients_left_out"))
    assert severity is found(logdir)["nonfinite-gradient"]
    assert [] == [rule for rule, each in found(logdir).items() if each > severity]


@pytest.mark.parametrize("left_out", [LATE, ALL], ids=["late", "all"])
def test_what_is_left_out_until_the_end_is_recorded(left_out: Collection[int], logdir: Path) -> None:
    """No optimizer steps any more."""
    with zero_code(logdir):
        kept: list[torch.optim.Optimizer] = []
        train(left_out, kept)
    recorded = Recorded(logdir / "run")
    assert float(len(left_out)) == sum(recorded.series("probe/gradients_left_out"))
    assert Severity.ERROR is found(logdir)["nonfinite-gradient"]


def test_a_step_that_the_program_ends_itself(logdir: Path) -> None:
    """A batch that is left out is a step then, and has its own loss."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with nd.watch(model, optimizer, logdir=logdir, run="run", every=1, on_finding="ignore") as monitor:
        for number in range(24):
            outputs = model(torch.randn(8, 4))
            loss = outputs.square().mean() + (0.0 if number != 8 else (outputs - outputs).abs().sqrt().sum())
            optimizer.zero_grad()
            loss.backward()
            if nn.utils.clip_grad_norm_(model.parameters(), 1.0).isfinite():
                optimizer.step()
            monitor.step(loss=loss)
    assert {8: 1.0} == Recorded(logdir / "run").scalars["probe/gradients_left_out"]
    assert {"nonfinite-gradient": Severity.INFO} == found(logdir)


def flat_net(*, is_channels_last: bool) -> nn.Module:
    """No biases: in channels-last memory no gradient of it is contiguous."""
    if not is_channels_last:
        return nn.Sequential(nn.Flatten(), nn.Linear(48, 1))
    layers = nn.Conv2d(3, 4, 2, bias=False), nn.Conv2d(4, 1, 3, bias=False)
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def clip_by_norm(model: nn.Module) -> bool:
    return bool(nn.utils.clip_grad_norm_(model.parameters(), 1.0).isfinite())


def clip_or_raise(model: nn.Module) -> bool:
    try:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    except RuntimeError:
        model.zero_grad()
        return False
    return True


def check_by_hand(model: nn.Module) -> bool:
    return all(bool(each.grad.isfinite().all()) for each in model.parameters() if each.grad is not None)


def train_beside(
    logdir: Path, clip: Callable[[nn.Module], bool], *, is_channels_last: bool = False, alone: bool = False
) -> None:
    """Skip every batch of one network; another one steps, unless it is `alone`."""
    torch.manual_seed(0)
    models = {name: flat_net(is_channels_last=is_channels_last) for name in ("skipped", "stepped")}
    if alone:
        del models["stepped"]
    optimizers = {name: torch.optim.SGD(each.parameters(), lr=1e-3) for name, each in models.items()}
    options = {"run": "run", "every": 1, "on_finding": "ignore"}
    with nd.watch(models, list(optimizers.values()), logdir=logdir, **options) as monitor:
        for _ in range(40):
            inputs = torch.randn(8, 3, 4, 4)
            outputs = {name: each(inputs) for name, each in models.items()}
            bad = outputs["skipped"]
            losses = {name: each.square().mean() for name, each in outputs.items()}
            losses["skipped"] = losses["skipped"] + (bad - bad).abs().sqrt().sum()
            for name, loss in losses.items():
                optimizers[name].zero_grad()
                loss.backward()
            for name, model in models.items():
                if clip(model):
                    optimizers[name].step()
            monitor.step(loss=sum(losses.values()))


@pytest.mark.parametrize("is_channels_last", [False, True], ids=["contiguous", "channels-last"])
@pytest.mark.parametrize("clip", [clip_by_norm, clip_or_raise, check_by_hand])
def test_one_network_is_left_out_and_another_steps(
    clip: Callable[[nn.Module], bool], is_channels_last: bool, logdir: Path
) -> None:
    train_beside(logdir, clip, is_channels_last=is_channels_last)
    recorded = Recorded(logdir / "run")
    assert [1.0] * 40 == recorded.series("probe/gradients_left_out")
    assert [1.0] * 40 == recorded.series("probe/step_left_out")
    assert Severity.ERROR is found(logdir)["nonfinite-gradient"]


@pytest.mark.parametrize("clip", [clip_by_norm, clip_or_raise, check_by_hand])
def test_left_out_batches_are_no_good_ones(clip: Callable[[nn.Module], bool], logdir: Path) -> None:
    """A step without an optimizer step has no other batch than the one that was left out."""
    train_beside(logdir, clip, alone=True)
    (run,) = nd.check(logdir).runs
    (finding,) = [each for each in run.findings if each.rule == "nonfinite-gradient"]
    assert (Severity.ERROR, 1.0) == (finding.severity, finding.evidence["share of batches left out"].value)
    assert "the network is lost" not in finding.message


def test_a_step_that_a_scaler_leaves_out_is_another_matter(logdir: Path) -> None:
    torch.manual_seed(0)
    with zero_code(logdir):
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for number in range(24):
            outputs = model(torch.randn(8, 4))
            loss = outputs.square().mean() + (0.0 if number != 8 else (outputs - outputs).abs().sqrt().sum())
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    recorded = Recorded(logdir / "run")
    assert 24 == len(recorded.steps) == len(recorded.series("loss"))
    assert "probe/gradients_left_out" not in recorded.scalars


def test_a_batch_that_the_forward_pass_has_ruined(logdir: Path) -> None:
    """Its loss is differentiated and its gradients are left out: no error."""
    torch.manual_seed(0)
    with zero_code(logdir):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for number in range(40):
            inputs = torch.randn(8, 4)
            if number == 20:
                inputs[0] = float("nan")
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            if nn.utils.clip_grad_norm_(model.parameters(), 1.0).isfinite():
                optimizer.step()
    assert "nonfinite-input" in found(logdir)
    assert Severity.ERROR not in found(logdir).values()
