"""Trainings without an optimizer of torch's: parameters that are changed by hand after a backward pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from tb_netdebug.core.records.step import Kind
from tests.cli.test_run_command import python, watched
from tests.support.loops import Recorded
from tests.support.zero_code import sgd, step, zero_code

STEPS = 12
PARAMETERS = {"0.weight", "0.bias", "2.weight", "2.bias"}


def network() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


class Momentum:
    """An optimizer of somebody else's, without anything of torch.optim."""

    def __init__(self, model: nn.Module) -> None:
        self._parameters = list(model.parameters())
        self._speeds = [torch.zeros_like(each) for each in self._parameters]

    @torch.no_grad()
    def step(self) -> None:
        for each, speed in zip(self._parameters, self._speeds, strict=True):
            assert each.grad is not None
            speed.mul_(0.9).add_(each.grad)
            each.sub_(0.01 * speed)


def through_data(model: nn.Module) -> None:
    for each in model.parameters():
        each.data.add_(-0.05 * each.grad)  # type: ignore[operator]


def with_alpha(model: nn.Module) -> None:
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for each in model.parameters():
        each.data.add_(each.grad, alpha=-0.05)  # type: ignore[arg-type]


def without_graph(model: nn.Module) -> None:
    with torch.no_grad():
        for each in model.parameters():
            each -= 0.05 * each.grad  # type: ignore[operator]


def by_replacing(model: nn.Module) -> None:
    for each in model.parameters():
        each.data = each.data - 0.05 * each.grad  # type: ignore[operator]


WAYS: dict[str, Callable[[nn.Module], None]] = {
    "data": through_data,
    "alpha": with_alpha,
    "no_grad": without_graph,
    "replaced": by_replacing,
}


def train(model: nn.Module, update: Callable[[], None], *, clears: str = "before") -> list[float]:
    """The losses; gradients are cleared before the call, before `backward`, or after the update."""
    torch.manual_seed(5)
    losses = []
    for _ in range(STEPS):
        inputs = torch.randn(8, 4)
        if clears == "before":
            model.zero_grad()
        loss = functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
        if clears == "between":
            model.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        update()
        if clears == "after":
            model.zero_grad(set_to_none=False)
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("clears", ["before", "between", "after"])
@pytest.mark.parametrize("way", [*WAYS, "own optimizer"])
def test_updates_by_hand_are_steps(logdir: Path, way: str, clears: str) -> None:
    """All but the first, by which the training is found: losses, batches, gradients, weights and updates."""
    alone = network()
    momentum = Momentum(alone)
    expected = train(alone, momentum.step if way not in WAYS else lambda: WAYS[way](alone), clears=clears)
    with zero_code(logdir) as found:
        model = network()
        own = Momentum(model)
        losses = train(model, own.step if way not in WAYS else lambda: WAYS[way](model), clears=clears)
    assert expected == losses
    assert all(torch.equal(*pair) for pair in zip(alone.parameters(), model.parameters(), strict=True))
    assert [STEPS - 1] == [training.steps for training in found.trainings]
    recorded = Recorded(logdir / "run")
    assert list(range(STEPS - 1)) == recorded.steps
    assert losses[1:] == pytest.approx(recorded.series("loss"))
    assert [8.0] * (STEPS - 1) == recorded.series("batch_size")
    for kind in (Kind.WEIGHT, Kind.GRADIENT):
        assert recorded.names(kind) == PARAMETERS
    assert {"0", "1", "2"} == recorded.names(Kind.ACTIVATION)
    assert STEPS - 1 == len(recorded.samples(Kind.GRADIENT, "0.weight"))
    norms = [abs(each.max - each.min) for each in recorded.samples(Kind.UPDATE, "2.bias").values()]
    assert len(norms) >= STEPS - 2


def test_accumulated_batches_are_one_step(logdir: Path) -> None:
    """Four backward passes, then the parameters change: their losses are added up."""
    torch.manual_seed(0)
    losses = []
    with zero_code(logdir):
        model = network()
        for number in range(24):
            inputs = torch.randn(8, 4)
            loss = functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)) / 4
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.item())
            if number % 4 == 3:
                through_data(model)
                model.zero_grad()
    recorded = Recorded(logdir / "run")
    expected = [sum(losses[first : first + 4]) for first in range(4, 24, 4)]
    assert expected == pytest.approx(recorded.series("loss"))
    assert [32.0] * 5 == recorded.series("batch_size")


def test_evaluations_in_between_end_no_step(logdir: Path) -> None:
    """Calls without an update, with gradients on and off."""
    with zero_code(logdir) as found:
        model = network()

        def update() -> None:
            model(torch.randn(3, 4))
            through_data(model)
            with torch.no_grad():
                model(torch.randn(3, 4))
                model(torch.randn(3, 4))

        train(model, update)
    assert [STEPS - 1] == [training.steps for training in found.trainings]


def test_another_model_is_another_run(logdir: Path) -> None:
    """One after the other, as in a cross validation."""
    with zero_code(logdir) as found:
        for _ in range(2):
            model = network()
            train(model, lambda model=model: through_data(model))  # type: ignore[misc]
    assert [STEPS - 1] * 2 == [training.steps for training in found.trainings]
    assert {"run", "run-2"} == {path.name for path in logdir.iterdir()}


def test_nothing_is_looked_at_while_there_is_an_optimizer(
    logdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No graph is gone through and no value is read: an ordinary training costs what it did."""
    looks: list[object] = []
    where = "tb_netdebug.integrations.torch_scripts.hand_updates"
    monkeypatch.setattr(f"{where}.leaves_of", lambda roots: looks.append(roots) or [])
    monkeypatch.setattr(f"{where}.values_at", lambda *given: looks.append(given))
    with zero_code(logdir) as found:
        model = nn.Linear(4, 1)
        optimizer = sgd(model)
        for _ in range(5):
            step(model, optimizer)
    assert [] == looks
    assert [5] == [training.steps for training in found.trainings]


def test_a_nan_does_not_end_the_recording(logdir: Path) -> None:
    """Weights that are NaN stay as they are, and are steps all the same."""
    with zero_code(logdir) as found:
        model = network()
        for number in range(STEPS):
            inputs = torch.randn(8, 4)
            loss = model(inputs).square().mean() * (float("nan") if number == 4 else 1.0)
            model.zero_grad()
            loss.backward()
            through_data(model)
    assert [STEPS - 1] == [training.steps for training in found.trainings]
    assert "nonfinite-loss" in {each.rule for each in found.trainings[0].findings}


@pytest.mark.parametrize("way", WAYS)
def test_a_training_that_begins_with_nan_is_recorded(logdir: Path, way: str) -> None:
    """Weights that become NaN where their gradients are have followed them."""
    with zero_code(logdir) as found:
        model = network()
        for _ in range(STEPS):
            inputs = torch.full((8, 4), float("nan"))
            model.zero_grad()
            model(inputs).square().mean().backward()
            WAYS[way](model)
    assert [STEPS - 1] == [training.steps for training in found.trainings]
    assert {"nonfinite-loss", "nonfinite-inputs"} & {each.rule for each in found.trainings[0].findings}


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("saliency", "nothing was trained: backward() was called, and no parameter changed after it."),
        ("adversarial", "tensors were changed along their gradients, but they are inputs of a network"),
        ("checkpoints", "or not along their gradients. If that was training, nd.watch and monitor.step"),
        (
            "taken",
            "gradients were computed with torch.autograd.grad, and NetDebug cannot see what was done",
        ),
    ],
)
def test_what_is_no_training_or_cannot_be_seen_is_told(tmp_path: Path, way: str, told: str) -> None:
    """No run is made; the script computes the same."""
    script = Path(__file__).parents[1] / "support/scripts/by_hand.py"
    expected, actual = python(str(script), way, folder=tmp_path), watched(str(script), way, folder=tmp_path)
    assert (0, expected.output, "") == (actual.code, actual.output, actual.errors)
    assert told in actual.closing
    assert [] == list(tmp_path.iterdir())


def test_plain_tensors_are_a_training_where_there_is_no_network(tmp_path: Path) -> None:
    """The last step is there, too, although nothing comes behind it."""
    script = Path(__file__).parents[1] / "support/scripts/by_hand.py"
    actual = watched(str(script), "tensors", folder=tmp_path, options=("--run", "r", "--every", "1"))
    assert "19 steps recorded" in actual.closing
    recorded = Recorded(tmp_path / "runs/r")
    assert json.loads(actual.output)[1:] == pytest.approx(recorded.series("loss"))
    assert {"tensor0", "tensor1"} == recorded.names(Kind.GRADIENT)
